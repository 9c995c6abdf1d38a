// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/file.hpp"

namespace batchai::base {

// Asks the kernels of other hosts whether they live, by echo requests of ICMP. Linux lets a user do
// so where net.ipv4.ping_group_range has one of his groups, as systemd sets it; elsewhere nobody
// answers. Nothing on the other host writes a line about it.
class Pinger {
  public:
    // Returns which addresses have answered since the last call, and asks these, which must be
    // numbers, of IPv4 or IPv6. Never waits.
    [[nodiscard]] std::set<std::string> ask(const std::vector<std::string>& addresses);

  private:
    struct Family {
        FileDescriptor socket;
        bool tried = false;
    };
    [[nodiscard]] static int socket_of(Family& family, int number, int protocol);
    void read_answers(const Family& family, std::set<std::string>& answered) const;

    Family v4_;
    Family v6_;
    std::uint16_t sequence_ = 0;
};

}  // namespace batchai::base

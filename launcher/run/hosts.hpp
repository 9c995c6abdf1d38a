// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"

namespace batchai::run {

// The node's IPv4 (else IPv6) address as this node resolves it; the name itself when it does not
// resolve, which every launcher accepts as well.
[[nodiscard]] std::string address_of(const std::string& node);

// One line a node for mpirun: "10.0.0.4 slots=2 max_slots=2".
[[nodiscard]] std::string host_file(const std::vector<std::string>& addresses, int slots);

// A TCP port that stays ours until the object goes: bound, not listening, with SO_REUSEADDR, so
// that a rank on this node can still bind it with SO_REUSEADDR and listen (as torch and gloo do),
// while no other process is handed it as an ephemeral port.
class ReservedPort {
  public:
    [[nodiscard]] static std::optional<ReservedPort> reserve();
    [[nodiscard]] int number() const { return number_; }

  private:
    base::FileDescriptor socket_;
    int number_ = 0;
};

}  // namespace batchai::run

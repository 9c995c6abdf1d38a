// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/file.hpp"

namespace batchai::base {

// The node's IPv4 (else IPv6) address as this node resolves it. The name itself when it does not
// resolve, or only to this node's loopback, where no other node would find it: every program that
// takes an address takes a name as well.
[[nodiscard]] std::string address_of(const std::string& node);

// A TCP port that stays ours until the object goes: bound, not listening, with SO_REUSEADDR, so
// that a rank on this node can still bind it with SO_REUSEADDR and listen (as torch and gloo do),
// while no other process is handed it as an ephemeral port.
class ReservedPort {
  public:
    [[nodiscard]] static std::optional<ReservedPort> reserve();
    [[nodiscard]] int number() const { return number_; }

  private:
    FileDescriptor socket_;
    int number_ = 0;
};

}  // namespace batchai::base

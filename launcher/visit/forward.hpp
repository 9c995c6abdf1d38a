// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "visit/visit.hpp"

// Ports of a job's node, as ports of this host: `job port`, and `job node exec -L`.
namespace batchai::visit {

struct PortWish {
    std::uint16_t here = 0;   // 0: any free port
    bool or_any = false;      // any free port if that one is taken
    std::uint16_t there = 0;  // of the node

    bool operator==(const PortWish&) const = default;
};

// Reads "THERE" or "HERE:THERE".
[[nodiscard]] base::Result<PortWish> port_wish(const std::string& text);
// Reads Batch AI's "HERE:HOST:THERE". HOST must be the node itself.
[[nodiscard]] base::Result<PortWish> port_wish_of_address(const std::string& text);

// Forwards the ports until the job ends or the user ends the command, and returns the exit code of
// the command. Prints "127.0.0.1:HERE -> NODE:THERE" for each port once it can be used.
[[nodiscard]] base::Result<int> forward_ports(const store::Store& store,
                                              const slurm::Client& client,
                                              const RunningJob& running, const std::string& node,
                                              const std::vector<PortWish>& wishes);

}  // namespace batchai::visit

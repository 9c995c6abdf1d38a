// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace batchai::node {

// Bytes since the machine was started.
struct NetworkTotals {
    std::int64_t received = 0;
    std::int64_t sent = 0;

    bool operator==(const NetworkTotals&) const = default;
};

// Adds up the interfaces in the text of /proc/net/dev that are in `names`.
[[nodiscard]] NetworkTotals totals_of_interfaces(std::string_view text,
                                                 const std::vector<std::string>& names);

// The traffic of a host: its network interfaces, and the InfiniBand ports, whose traffic by RDMA no
// interface counts.
class NetworkCounters {
  public:
    // An interface counts if it belongs to a device. Otherwise bridges, VLANs and the interfaces of
    // containers would count the same bytes again. Where no interface belongs to a device, as in a
    // container, all but "lo" count. `system` is where sysfs is mounted.
    NetworkCounters(std::string_view net_dev, const std::string& system = "/sys");

    [[nodiscard]] NetworkTotals read(std::string_view net_dev) const;

  private:
    std::vector<std::string> names_;
    std::vector<std::string> ports_;  // directories of counters
};

}  // namespace batchai::node

// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/network.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;

struct Interface {
    std::string_view name;
    NetworkTotals totals;
};

// Reads lines such as "  eth0: 1500 10 0 0 0 0 0 0 900 8 0 0 0 0 0 0".
std::vector<Interface> interfaces_in(std::string_view text) {
    std::vector<Interface> out;
    for (const std::string_view line : base::split(text, '\n')) {
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) continue;
        std::vector<std::int64_t> numbers;
        for (const std::string_view word : base::split(line.substr(colon + 1), ' ')) {
            if (word.empty()) continue;
            const auto number = base::number_in<std::int64_t>(word);
            if (!number) break;
            numbers.push_back(*number);
        }
        constexpr std::size_t sent = 8;
        if (numbers.size() > sent)
            out.push_back({base::trim(line.substr(0, colon)), {numbers[0], numbers[sent]}});
    }
    return out;
}

std::int64_t counter(const std::string& path) {
    const auto text = base::read_file(path, 64);
    // The counters of a port count words of four bytes.
    return text ? 4 * base::number_in<std::int64_t>(base::trim(*text)).value_or(0) : 0;
}

}  // namespace

NetworkTotals totals_of_interfaces(std::string_view text, const std::vector<std::string>& names) {
    NetworkTotals totals;
    for (const Interface& interface : interfaces_in(text)) {
        if (std::find(names.begin(), names.end(), interface.name) == names.end()) continue;
        totals.received += interface.totals.received;
        totals.sent += interface.totals.sent;
    }
    return totals;
}

NetworkCounters::NetworkCounters(std::string_view net_dev, const std::string& system) {
    std::vector<std::string> others;
    std::error_code error;
    for (const Interface& interface : interfaces_in(net_dev)) {
        std::string name(interface.name);
        if (name == "lo") continue;
        const bool has_device = fs::exists(fs::path(system) / "class/net" / name / "device", error);
        (has_device ? names_ : others).push_back(std::move(name));
    }
    if (names_.empty()) names_ = std::move(others);
    for (const auto& device : base::entries_of(fs::path(system) / "class/infiniband", error)) {
        for (const auto& port : base::entries_of(device.path() / "ports", error))
            ports_.push_back((port.path() / "counters").string());
    }
}

NetworkTotals NetworkCounters::read(std::string_view net_dev) const {
    NetworkTotals totals = totals_of_interfaces(net_dev, names_);
    for (const std::string& port : ports_) {
        totals.received += counter(port + "/port_rcv_data");
        totals.sent += counter(port + "/port_xmit_data");
    }
    return totals;
}

}  // namespace batchai::node

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "transport/choice/network.hpp"

namespace mpi_bridge {
namespace {

bool has(const std::vector<std::string>& list, const std::string& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

bool fit(const NetworkInterface& interface) {
    return interface.up && !interface.loopback && !interface.addresses.empty();
}

struct Claim {
    const char* reason;  // the launcher's name follows if it ends with a space
    bool (*holds)(const NetworkInterface&, const Network&);
};

// In order of preference, the strongest reason first.
constexpr Claim claims[] = {
    {"it leads to ",
     [](const NetworkInterface& interface, const Network& network) {
         return has(interface.addresses, network.address_to_launcher);
     }},
    {"it has the default route",
     [](const NetworkInterface& interface, const Network& /*network*/) {
         return interface.default_route;
     }},
    {"it is the fastest that is up", [](const NetworkInterface& interface,
                                        const Network& /*network*/) { return interface.hardware; }},
};

}  // namespace

DeviceChoice choose_interface(const Network& network) {
    for (const auto& claim : claims) {
        const NetworkInterface* best = nullptr;
        for (const auto& interface : network.interfaces) {
            if (!fit(interface) || !claim.holds(interface, network)) continue;
            const bool better =
                best == nullptr || interface.speed_mbps > best->speed_mbps ||
                (interface.speed_mbps == best->speed_mbps && interface.name < best->name);
            if (better) best = &interface;
        }
        if (best == nullptr) continue;
        std::string reason =
            best->name + " (" + best->addresses.front() + ") because " + claim.reason;
        if (reason.back() == ' ') reason += network.launcher;
        return {{best->name}, std::move(reason)};
    }
    std::string reason = "no interface but loopback is up on this host";
    for (const auto& interface : network.interfaces) {
        if (!fit(interface)) continue;
        reason = "nothing tells whether " + interface.name +
                 " leads to the other hosts, because it is virtual and has no default route";
        break;
    }
    return {{}, std::move(reason)};
}

std::vector<std::string> comma_separated(std::string_view list) {
    std::vector<std::string> found;
    while (!list.empty()) {
        const auto comma = list.find(',');
        if (comma != 0) found.emplace_back(list.substr(0, comma));
        list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    }
    return found;
}

const NetworkInterface* named_interface(const Network& network, std::string_view list) {
    for (const std::string& name : comma_separated(list)) {
        const auto found = std::find_if(network.interfaces.begin(), network.interfaces.end(),
                                        [&](const auto& each) { return each.name == name; });
        if (found != network.interfaces.end() && !found->addresses.empty()) return &*found;
    }
    return nullptr;
}

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/choice.hpp"

#include <algorithm>
#include <string_view>

namespace mpi_bridge {
namespace {

bool says_nothing(const std::string& wish) {
    return wish.empty() || wish == "all";
}

std::string joined(const std::vector<std::string>& words) {
    std::string list;
    for (const auto& word : words)
        list += (list.empty() ? "" : ",") + word;
    return list;
}

bool names_tcp(const std::string& transports) {
    if (transports.starts_with('^')) return false;
    const auto all = comma_separated(transports);
    return std::find(all.begin(), all.end(), "tcp") != all.end();
}

// Changes the list of transports so that it does not include TCP.
std::string without_tcp(const std::string& transports) {
    if (says_nothing(transports)) return "^tcp";
    if (transports.starts_with('^')) return transports + ",tcp";
    auto all = comma_separated(transports);
    std::erase(all, "tcp");
    return joined(all);
}

// The devices for UCX's TCP.
DeviceChoice interfaces_for(const Network& network, UcxUse use) {
    if (use.several_hosts) return choose_interface(network);
    DeviceChoice choice;
    for (const auto& interface : network.interfaces) {
        if (interface.loopback) choice.devices.push_back(interface.name);
    }
    choice.reason = "all ranks are on this host";
    return choice;
}

}  // namespace

UcxChoice choose_ucx(const Network& network, const UcxWishes& wishes, UcxUse use) {
    UcxChoice choice;
    choice.rdma = !network.rdma_ports.empty();
    choice.over_tcp = use.named && (!choice.rdma || names_tcp(wishes.transports));
    if (!choice.over_tcp) choice.transports = without_tcp(wishes.transports);
    if (!says_nothing(wishes.devices)) {
        choice.text = wishes.devices + ", as UCX_NET_DEVICES says";
        return choice;
    }
    DeviceChoice devices;
    if (choice.over_tcp) devices = interfaces_for(network, use);
    devices.devices.insert(devices.devices.begin(), network.rdma_ports.begin(),
                           network.rdma_ports.end());
    if (devices.reason.empty()) devices.reason = "RDMA";
    choice.devices = joined(devices.devices);
    choice.text = choice.devices.empty()
                      ? "UCX's choice: " + devices.reason
                      : choice.devices + ": " + devices.reason + "; UCX_NET_DEVICES overrides";
    return choice;
}

}  // namespace mpi_bridge

// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/nccl_interface.hpp"

#include <algorithm>
#include <string_view>

namespace batchai::node {

namespace {

constexpr std::string_view devices_variable = "UCX_NET_DEVICES";

}  // namespace

std::optional<NcclInterface> choose_nccl_interface(const mpi_bridge::Network& network,
                                                   const std::vector<plan::Variable>& environment) {
    // The later one of two variables with the same name counts.
    const auto devices = std::find_if(
        environment.rbegin(), environment.rend(),
        [](const plan::Variable& variable) { return variable.name == devices_variable; });
    if (devices != environment.rend()) {
        const auto* const named = mpi_bridge::named_interface(network, devices->value);
        if (named != nullptr)
            return NcclInterface{named->name, named->name + " as UCX_NET_DEVICES says"};
    }
    const mpi_bridge::DeviceChoice choice = mpi_bridge::choose_interface(network);
    if (choice.devices.empty()) return std::nullopt;
    return NcclInterface{choice.devices.front(), choice.reason};
}

std::optional<NcclInterface> nccl_interface_of_this_node(
    const std::string& master, const std::vector<plan::Variable>& environment) {
    return choose_nccl_interface(
        mpi_bridge::network_of_this_host(master, "the first node of the step"), environment);
}

}  // namespace batchai::node

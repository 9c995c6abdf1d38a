// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/nccl_interface.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace batchai::node {

namespace {

constexpr std::string_view devices_variable = "UCX_NET_DEVICES";

// Returns another network card that is not slower than the chosen interface. A node's name often
// leads to a slow network for administration, and NCCL can use several cards at once.
const mpi_bridge::NetworkInterface* rival_of(const std::string& chosen,
                                             const mpi_bridge::Network& network) {
    const auto& all = network.interfaces;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == chosen; });
    if (found == all.end()) return nullptr;
    const auto rival = std::find_if(all.begin(), all.end(), [&](const auto& each) {
        return each.name != chosen && each.up && !each.loopback && each.hardware &&
               !each.addresses.empty() && each.speed_mbps >= found->speed_mbps;
    });
    return rival == all.end() ? nullptr : &*rival;
}

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
    if (const auto* const other = rival_of(choice.devices.front(), network))
        return NcclInterface{
            {},
            fmt::format("{} is not slower than {}, so NCCL chooses", other->name, choice.reason)};
    return NcclInterface{choice.devices.front(), choice.reason};
}

std::optional<NcclInterface> nccl_interface_of_this_node(
    const std::string& master, const std::vector<plan::Variable>& environment) {
    return choose_nccl_interface(
        mpi_bridge::network_of_this_host(master, "the first node of the step"), environment);
}

}  // namespace batchai::node

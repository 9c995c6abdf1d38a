// SPDX-License-Identifier: Apache-2.0
#include "transport/choice/network_choice.hpp"

#include <algorithm>
#include <array>

#include "core/environment.hpp"
#include "transport/tcp/address.hpp"
#include "transport/ucx/network.hpp"
#include "transport/ucx/transport.hpp"

namespace mpi_bridge {
namespace {

// UCX's transports that stay within the host and so are no alternative to TCP, and its own TCP.
constexpr std::array<std::string_view, 10> transports_on_host = {
    "tcp", "self", "sm", "shm", "posix", "sysv", "cma", "xpmem", "knem", "gdr_copy"};

bool is_on_host(std::string_view transport) {
    return std::find(transports_on_host.begin(), transports_on_host.end(), transport) !=
               transports_on_host.end() ||
           transport.starts_with("cuda") || transport.starts_with("rocm") ||
           transport.starts_with("ze_");
}

// An empty list, "all" and "^…" leave the choice to UCX.
bool names_nothing_faster(const std::string& transports) {
    if (transports.empty() || transports.front() == '^') return false;
    const auto all = comma_separated(transports);
    return std::all_of(all.begin(), all.end(), is_on_host);
}

std::vector<std::string> in_order(std::vector<std::string> addresses) {
    std::stable_partition(addresses.begin(), addresses.end(), [](const std::string& address) {
        return address.find(':') == std::string::npos;
    });
    return addresses;
}

}  // namespace

UcxWishes ucx_wishes() {
    return {process_environment("UCX_TLS").value_or(""),
            process_environment("UCX_NET_DEVICES").value_or("")};
}

NetworkChoice choose_network(std::string_view wish, const Network& network, const UcxWishes& ucx,
                             bool several_hosts) {
    using Kind = NetworkChoice::Kind;
    if (wish != "auto") {
        return {wish == "tcp" ? Kind::tcp : Kind::ucx, "as MPI_BRIDGE_NETWORK says"};
    }
    if (!several_hosts) return {Kind::tcp, "all ranks are on this host"};
    if (network.rdma_ports.empty()) return {Kind::tcp, "there is no active RDMA port"};
    if (names_nothing_faster(ucx.transports)) return {Kind::tcp, "UCX_TLS allows nothing faster"};
    return {Kind::ucx, "there are RDMA ports"};
}

bool any_reaches_other_hosts(const std::vector<std::string>& transports) {
    return !std::all_of(transports.begin(), transports.end(), is_on_host);
}

NetworkChoice choose_network_here(std::string_view wish, const Network& network,
                                  bool several_hosts) {
    auto choice = choose_network(wish, network, ucx_wishes(), several_hosts);
    if (wish != "auto" || choice.kind != NetworkChoice::Kind::ucx) return choice;
    const auto transports = ucx_transports();
    if (transports && any_reaches_other_hosts(*transports)) return choice;
    return {NetworkChoice::Kind::tcp, "UCX cannot use this host's RDMA ports"};
}

Outcome<TcpInterface> choose_tcp_interface(const Network& network, const UcxWishes& ucx,
                                           bool several_hosts) {
    if (!several_hosts) {
        return TcpInterface{{TcpEndpoint::own_host}, "Unix-domain sockets"};
    }
    if (!ucx.devices.empty() && ucx.devices != "all") {
        if (const auto* interface = named_interface(network, ucx.devices); interface != nullptr) {
            return TcpInterface{in_order(interface->addresses),
                                interface->name + ", as UCX_NET_DEVICES says"};
        }
        return fail(MPIB_ERROR_INVALID_ARGUMENT,
                    "UCX_NET_DEVICES=\"" + ucx.devices +
                        "\" names no network interface of this host that has an address; name "
                        "one, or let UCX use other devices with MPI_BRIDGE_NETWORK=ucx");
    }
    const auto choice = choose_interface(network);
    for (const auto& name : choice.devices) {
        if (const auto* interface = named_interface(network, name); interface != nullptr) {
            return TcpInterface{in_order(interface->addresses),
                                name + ": " + choice.reason + "; UCX_NET_DEVICES overrides"};
        }
    }
    return fail(MPIB_ERROR_INTERNAL, choice.reason +
                                         "; name the interface that leads to the other hosts in "
                                         "UCX_NET_DEVICES");
}

std::string network_in_use(std::string_view wish) {
    const auto network = network_of_this_host();
    const auto ucx = ucx_wishes();
    const auto choice = choose_network_here(wish, network, true);
    if (choice.kind == NetworkChoice::Kind::ucx) {
        return "ucx (" + choice.reason + "), " + ucx_network_in_use(wish == "ucx");
    }
    auto interface = choose_tcp_interface(network, ucx, true);
    return "tcp (" + choice.reason + "), " + (interface ? interface->text : interface.error().text);
}

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mpi_bridge {

struct NetworkInterface {
    std::string name;
    bool up = false;  // switched on and linked
    bool loopback = false;
    bool hardware = false;  // a card, or a bond or VLAN of cards: not a bridge, tunnel or veth
    bool default_route = false;
    long speed_mbps = 0;                 // 0: unknown
    std::vector<std::string> addresses;  // IPv4 and IPv6 in numbers, link-local ones left out
};

// The network interfaces, RDMA ports and address of this host.
struct Network {
    std::vector<NetworkInterface> interfaces;
    std::vector<std::string> rdma_ports;  // active ones by UCX's name, such as "mlx5_0:1"
    std::string address_to_launcher;      // own address towards the launcher; "" unknown
    std::string launcher = "the launcher of the step";  // what that is, in words
};

// Reads /sys/class, /proc/net, the interfaces' addresses and SLURM_LAUNCH_NODE_IPADDR. Where Slurm
// has not set that variable, the host that MASTER_ADDR names takes the launcher's place; its name
// is looked up. Nothing else is sent. What cannot be read is left out.
[[nodiscard]] Network network_of_this_host();

// The same with another host in the place of the launcher: its address, and what it is in words.
[[nodiscard]] Network network_of_this_host(const std::string& address, std::string words);

// The devices that ranks on different hosts could communicate through.
struct DeviceChoice {
    std::vector<std::string> devices;  // in the form of UCX_NET_DEVICES; empty: no choice to make
    std::string reason;                // a clause for a message
};

// Chooses the one interface that most probably leads to the other hosts: the one towards the
// launcher, else the one with the default route, else the fastest card. The loopback interface is
// never chosen. A bridge, tunnel or container interface (docker0, virbr0, tun0) is chosen only if
// it is one of the first two: hosts have such interfaces with equal addresses that lead nowhere.
[[nodiscard]] DeviceChoice choose_interface(const Network& network);

// The first interface of `list`, which has the form of UCX_NET_DEVICES, that this host has and that
// has an address; null if there is none.
[[nodiscard]] const NetworkInterface* named_interface(const Network& network,
                                                      std::string_view list);

// The items of a list such as "rc,tcp,self".
[[nodiscard]] std::vector<std::string> comma_separated(std::string_view list);

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#include "transport/network_choice.hpp"

#include <gtest/gtest.h>

namespace {

using mpi_bridge::choose_network;
using mpi_bridge::choose_tcp_interface;
using mpi_bridge::Network;
using mpi_bridge::NetworkInterface;
using Kind = mpi_bridge::NetworkChoice::Kind;

NetworkInterface interface(const char* name, std::vector<std::string> addresses) {
    NetworkInterface made;
    made.name = name;
    made.up = true;
    made.hardware = true;
    made.addresses = std::move(addresses);
    return made;
}

Network ethernet() {
    Network network;
    auto loopback = interface("lo", {"127.0.0.1", "::1"});
    loopback.loopback = true;
    network.interfaces = {loopback, interface("eth0", {"fd00::1", "10.0.0.1"}),
                          interface("eth1", {"10.1.0.1"})};
    network.interfaces[1].default_route = true;
    return network;
}

TEST(NetworkChoice, TcpServesSeveralHostsWithoutRdma) {
    EXPECT_EQ(choose_network("auto", ethernet(), {}, true).kind, Kind::tcp);
    EXPECT_EQ(choose_network("auto", ethernet(), {}, false).kind, Kind::ucx);
    auto rdma = ethernet();
    rdma.rdma_ports = {"mlx5_0:1"};
    EXPECT_EQ(choose_network("auto", rdma, {}, true).kind, Kind::ucx);
}

// Breaks when what the user told UCX is overruled.
TEST(NetworkChoice, WhatUcxIsToldCounts) {
    auto rdma = ethernet();
    rdma.rdma_ports = {"mlx5_0:1"};
    for (const char* only_tcp : {"tcp", "tcp,self", "self,sm,tcp", "tcp,cuda_copy,self"})
        EXPECT_EQ(choose_network("auto", rdma, {only_tcp, ""}, true).kind, Kind::tcp) << only_tcp;
    for (const char* more : {"rc,tcp,self", "all", "", "^tcp"})
        EXPECT_EQ(choose_network("auto", rdma, {more, ""}, true).kind, Kind::ucx) << more;
    EXPECT_EQ(choose_network("auto", ethernet(), {"rc,self", ""}, true).kind, Kind::ucx);
}

TEST(NetworkChoice, TheSettingIsStrongest) {
    EXPECT_EQ(choose_network("ucx", ethernet(), {"tcp,self", ""}, true).kind, Kind::ucx);
    EXPECT_EQ(choose_network("tcp", ethernet(), {"rc", ""}, false).kind, Kind::tcp);
}

TEST(NetworkChoice, TcpListensOnTheInterfaceThatLeadsToTheOthers) {
    const auto chosen = choose_tcp_interface(ethernet(), {}, true);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->addresses, (std::vector<std::string>{"10.0.0.1", "fd00::1"}));
    EXPECT_TRUE(chosen->text.starts_with("eth0: eth0 (")) << chosen->text;

    const auto told = choose_tcp_interface(ethernet(), {"", "mlx5_0:1,eth1"}, true);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->addresses, std::vector<std::string>{"10.1.0.1"});
    EXPECT_EQ(told->text, "eth1, as UCX_NET_DEVICES says");

    const auto wrong = choose_tcp_interface(ethernet(), {"", "eth7"}, true);
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().text.find("UCX_NET_DEVICES=\"eth7\""), std::string::npos);
}

TEST(NetworkChoice, LoopbackServesOneHostOnly) {
    Network network;
    network.interfaces = {ethernet().interfaces[0]};
    EXPECT_TRUE(choose_tcp_interface(network, {}, false));
    EXPECT_FALSE(choose_tcp_interface(network, {}, true));
}

}  // namespace

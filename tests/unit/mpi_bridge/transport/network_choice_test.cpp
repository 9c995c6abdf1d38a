// SPDX-License-Identifier: Apache-2.0
#include "transport/choice/network_choice.hpp"

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

TEST(NetworkChoice, UcxServesSeveralHostsWithRdmaOnly) {
    EXPECT_EQ(choose_network("auto", ethernet(), {}, true).kind, Kind::tcp);
    EXPECT_EQ(choose_network("auto", ethernet(), {"rc,self", ""}, true).kind, Kind::tcp);
    EXPECT_EQ(choose_network("auto", ethernet(), {"^tcp", ""}, true).kind, Kind::tcp);
    auto rdma = ethernet();
    rdma.rdma_ports = {"mlx5_0:1"};
    EXPECT_EQ(choose_network("auto", rdma, {}, true).kind, Kind::ucx);
}

// Breaks when ranks of one host open a port.
TEST(NetworkChoice, RanksOfOneHostListenToNoOther) {
    auto host = ethernet();
    host.rdma_ports = {"mlx5_0:1"};
    for (const char* transports : {"", "all", "rc,self", "tcp,self"}) {
        EXPECT_EQ(choose_network("auto", host, {transports, ""}, false).kind, Kind::tcp);
        const auto chosen = choose_tcp_interface(host, {transports, "eth0"}, false);
        ASSERT_TRUE(chosen);
        EXPECT_EQ(chosen->addresses, std::vector<std::string>{"unix"});
    }
}

// Breaks when what the user told UCX is overruled.
TEST(NetworkChoice, WhatUcxIsToldCounts) {
    auto rdma = ethernet();
    rdma.rdma_ports = {"mlx5_0:1"};
    for (const char* only_tcp : {"tcp", "tcp,self", "self,sm,tcp", "tcp,cuda_copy,self", "sm,self"})
        EXPECT_EQ(choose_network("auto", rdma, {only_tcp, ""}, true).kind, Kind::tcp) << only_tcp;
    for (const char* more : {"rc,tcp,self", "all", "", "^tcp"})
        EXPECT_EQ(choose_network("auto", rdma, {more, ""}, true).kind, Kind::ucx) << more;
}

// Breaks when ranks are left with transports of UCX that reach nobody.
TEST(NetworkChoice, WhatUcxFindsMustReachOtherHosts) {
    using mpi_bridge::any_reaches_other_hosts;
    EXPECT_FALSE(any_reaches_other_hosts({}));
    EXPECT_FALSE(any_reaches_other_hosts({"cma", "posix", "self", "sysv", "tcp", "cuda_copy"}));
    EXPECT_TRUE(any_reaches_other_hosts({"posix", "rc_mlx5", "tcp"}));
    auto claimed = ethernet();
    claimed.rdma_ports = {"mlx5_0:1"};
    const auto real = mpi_bridge::network_of_this_host();
    if (!real.rdma_ports.empty()) GTEST_SKIP() << "this host has RDMA";
    EXPECT_EQ(mpi_bridge::choose_network_here("auto", claimed, true).kind, Kind::tcp);
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

TEST(NetworkChoice, LoopbackServesNobody) {
    Network network;
    network.interfaces = {ethernet().interfaces[0]};
    EXPECT_FALSE(choose_tcp_interface(network, {}, true));
}

}  // namespace

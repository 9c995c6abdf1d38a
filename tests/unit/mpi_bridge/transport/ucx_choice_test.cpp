// SPDX-License-Identifier: Apache-2.0
// Where UCX may open TCP ports, which anybody can connect to.
#include <gtest/gtest.h>

#include "transport/ucx/choice.hpp"

namespace {

using mpi_bridge::choose_ucx;
using mpi_bridge::Network;
using mpi_bridge::NetworkInterface;

constexpr mpi_bridge::UcxUse automatic{true, false};
constexpr mpi_bridge::UcxUse named{true, true};
constexpr mpi_bridge::UcxUse named_on_one_host{false, true};

Network ethernet() {
    NetworkInterface loopback;
    loopback.name = "lo";
    loopback.up = loopback.loopback = true;
    loopback.addresses = {"127.0.0.1"};
    NetworkInterface card;
    card.name = "eth0";
    card.up = card.hardware = card.default_route = true;
    card.addresses = {"10.0.0.1"};
    Network network;
    network.interfaces = {loopback, card};
    return network;
}

Network infiniband() {
    auto network = ethernet();
    network.rdma_ports = {"mlx5_0:1", "mlx5_1:1"};
    return network;
}

TEST(UcxChoice, RdmaIsUsedWithoutTcp) {
    for (const auto use : {automatic, named}) {
        const auto choice = choose_ucx(infiniband(), {}, use);
        EXPECT_FALSE(choice.over_tcp);
        EXPECT_EQ(choice.transports, "^tcp");
        EXPECT_EQ(choice.devices, "mlx5_0:1,mlx5_1:1");
    }
}

// Breaks when a list that names TCP beside RDMA brings TCP in unasked.
TEST(UcxChoice, TcpIsTakenOutOfWhatTheUserToldUcx) {
    const auto told = [](const char* transports) {
        return choose_ucx(infiniband(), {transports, ""}, automatic).transports;
    };
    EXPECT_EQ(told("all"), "^tcp");
    EXPECT_EQ(told("rc,tcp,self"), "rc,self");
    EXPECT_EQ(told("rc,self"), "rc,self");
    EXPECT_EQ(told("^ud"), "^ud,tcp");
}

TEST(UcxChoice, WhoeverNamesUcxWithoutRdmaGetsItsTcp) {
    const auto choice = choose_ucx(ethernet(), {}, named);
    EXPECT_TRUE(choice.over_tcp);
    EXPECT_EQ(choice.transports, "");
    EXPECT_EQ(choice.devices, "eth0");
    EXPECT_EQ(choose_ucx(ethernet(), {}, named_on_one_host).devices, "lo");
    EXPECT_FALSE(choose_ucx(ethernet(), {}, automatic).over_tcp);
}

TEST(UcxChoice, WhoeverNamesUcxAndItsTcpGetsBoth) {
    const auto choice = choose_ucx(infiniband(), {"rc,tcp,self", ""}, named);
    EXPECT_TRUE(choice.over_tcp);
    EXPECT_EQ(choice.transports, "");
    EXPECT_EQ(choice.devices, "mlx5_0:1,mlx5_1:1,eth0");
}

TEST(UcxChoice, DevicesThatTheUserNamesAreKept) {
    const auto choice = choose_ucx(infiniband(), {"", "mlx5_1:1"}, automatic);
    EXPECT_EQ(choice.devices, "");
    EXPECT_EQ(choice.transports, "^tcp");
    EXPECT_EQ(choice.text, "mlx5_1:1, as UCX_NET_DEVICES says");
}

}  // namespace

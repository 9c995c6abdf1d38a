// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/nccl_interface.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::node {

namespace {

mpi_bridge::NetworkInterface card(const std::string& name, const std::string& address) {
    mpi_bridge::NetworkInterface interface;
    interface.name = name;
    interface.up = true;
    interface.hardware = true;
    interface.addresses = {address};
    return interface;
}

mpi_bridge::Network two_cards() {
    mpi_bridge::Network network;
    network.interfaces = {card("eth0", "192.0.2.5"), card("ib0", "10.0.0.5")};
    network.interfaces.front().default_route = true;
    network.interfaces.front().speed_mbps = 1'000;
    network.interfaces.back().speed_mbps = 100'000;
    network.launcher = "the first node of the step";
    return network;
}

}  // namespace

TEST(NcclInterface, LeadsToTheFirstNodeWhereThatIsKnown) {
    mpi_bridge::Network network = two_cards();
    network.address_to_launcher = "10.0.0.5";
    const auto chosen = choose_nccl_interface(network, {});
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->name, "ib0");
    EXPECT_EQ(chosen->reason, "ib0 (10.0.0.5) because it leads to the first node of the step");
}

TEST(NcclInterface, IsLeftToNcclBesideACardThatIsNotSlower) {
    mpi_bridge::Network network = two_cards();
    const auto slower = choose_nccl_interface(network, {});
    ASSERT_TRUE(slower);
    EXPECT_EQ(slower->name, "");
    EXPECT_EQ(slower->reason,
              "ib0 is not slower than eth0 (192.0.2.5) because it has the default route, so NCCL "
              "chooses");
    network.interfaces.front().speed_mbps = 100'000;
    EXPECT_EQ(choose_nccl_interface(network, {})->name, "") << "it can use both";
    network.interfaces.back().hardware = false;
    EXPECT_EQ(choose_nccl_interface(network, {})->name, "eth0");
}

TEST(NcclInterface, IsTheOneThatTheJobNamesForMpiBridge) {
    const mpi_bridge::Network network = two_cards();
    EXPECT_EQ(choose_nccl_interface(network, {{"UCX_NET_DEVICES", "mlx5_0:1,ib0"}})->name, "ib0");
    EXPECT_EQ(choose_nccl_interface(network, {{"UCX_NET_DEVICES", "mlx5_0:1"}})->name, "");
    EXPECT_EQ(
        choose_nccl_interface(network, {{"UCX_NET_DEVICES", "eth0"}, {"UCX_NET_DEVICES", "ib0"}})
            ->name,
        "ib0");
}

TEST(NcclInterface, IsNoneWhereNoneIsUp) {
    EXPECT_FALSE(choose_nccl_interface({}, {}));
}

TEST(NcclInterface, OfThisNodeIsFoundWhateverTheMasterIs) {
    // A container may have no interface but loopback; then there is none, but no fault either.
    for (const char* master : {"", "127.0.0.1", "no-such-host", "::1"}) {
        const auto chosen = nccl_interface_of_this_node(master, {});
        EXPECT_FALSE(chosen && chosen->reason.empty()) << master;
    }
}

}  // namespace batchai::node

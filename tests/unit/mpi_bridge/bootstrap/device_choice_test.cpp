// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "transport/choice/network.hpp"

namespace {

using mpi_bridge::choose_interface;
using mpi_bridge::Network;
using mpi_bridge::NetworkInterface;
using Names = std::vector<std::string>;

NetworkInterface card(const std::string& name, const std::string& address, long speed = 0) {
    NetworkInterface interface;
    interface.name = name;
    interface.up = true;
    interface.hardware = true;
    interface.speed_mbps = speed;
    if (!address.empty()) interface.addresses = {address};
    return interface;
}

NetworkInterface bridge(const std::string& name, const std::string& address) {
    auto interface = card(name, address, 10000);
    interface.hardware = false;
    return interface;
}

NetworkInterface loopback() {
    auto interface = bridge("lo", "127.0.0.1");
    interface.loopback = true;
    return interface;
}

Network network(std::vector<NetworkInterface> interfaces) {
    Network found;
    found.interfaces = std::move(interfaces);
    return found;
}

TEST(DeviceChoice, TakesTheInterfaceTowardsTheLauncherBeforeTheDefaultRoute) {
    auto routed = card("eno1", "192.0.2.5", 100000);
    routed.default_route = true;
    auto host = network(
        {loopback(), bridge("docker0", "172.17.0.1"), routed, card("eno2", "10.0.0.5", 1000)});
    EXPECT_EQ(choose_interface(host).devices, Names{"eno1"});
    host.address_to_launcher = "10.0.0.5";
    EXPECT_EQ(choose_interface(host).devices, Names{"eno2"});
}

TEST(DeviceChoice, TakesTheFastestCardWhereNothingElseTells) {
    EXPECT_EQ(choose_interface(
                  network({bridge("virbr0", "192.168.122.1"), card("eth0", "192.0.2.5", 1000),
                           card("eth1", "192.0.2.6", 25000)}))
                  .devices,
              Names{"eth1"});
    EXPECT_EQ(choose_interface(network({card("b", "192.0.2.5"), card("a", "192.0.2.6")})).devices,
              Names{"a"});
}

TEST(DeviceChoice, NeverTakesLoopbackOrAnInterfaceThatIsDownOrHasNoAddress) {
    auto down = card("eth0", "192.0.2.5");
    down.up = false;
    auto host = network({loopback(), down, card("eth1", "")});
    host.address_to_launcher = "127.0.0.1";
    EXPECT_TRUE(choose_interface(host).devices.empty());
}

TEST(DeviceChoice, TakesABridgeOnlyIfItLeadsToTheOthers) {
    auto host = network({loopback(), bridge("br0", "10.0.0.5"), bridge("docker0", "172.17.0.1")});
    EXPECT_TRUE(choose_interface(host).devices.empty());
    host.address_to_launcher = "10.0.0.5";
    EXPECT_EQ(choose_interface(host).devices, Names{"br0"});
}

TEST(DeviceChoice, SaysWhyItTakesNone) {
    EXPECT_EQ(choose_interface(network({loopback()})).reason,
              "no interface but loopback is up on this host");
    const auto reason = choose_interface(network({loopback(), bridge("br0", "10.0.0.5")})).reason;
    EXPECT_NE(reason.find("whether br0 leads to the other hosts"), std::string::npos) << reason;
}

TEST(DeviceChoice, SaysWhy) {
    auto host = network({card("eth0", "192.0.2.5")});
    host.address_to_launcher = "192.0.2.5";
    const auto reason = choose_interface(host).reason;
    EXPECT_NE(reason.find("eth0 (192.0.2.5)"), std::string::npos) << reason;
    EXPECT_NE(reason.find("launcher"), std::string::npos) << reason;
}

// Every Linux host has the loopback interface, so that an empty list means a reader that is broken.
TEST(Network, OfThisHostHasTheLoopbackInterfaceAndKnowsItAsSuch) {
    const auto here = mpi_bridge::network_of_this_host();
    const auto lo = std::find_if(here.interfaces.begin(), here.interfaces.end(),
                                 [](const auto& each) { return each.name == "lo"; });
    ASSERT_NE(lo, here.interfaces.end());
    EXPECT_TRUE(lo->loopback);
    EXPECT_FALSE(lo->hardware);
}

TEST(Network, LooksForTheWayToMasterAddrWhereSlurmNamesNoLauncher) {
    unsetenv("SLURM_LAUNCH_NODE_IPADDR");
    setenv("MASTER_ADDR", "localhost", 1);
    const auto by_name = mpi_bridge::network_of_this_host();
    EXPECT_EQ(by_name.address_to_launcher, "127.0.0.1");
    EXPECT_EQ(by_name.launcher, "MASTER_ADDR, localhost");
    setenv("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.2", 1);
    EXPECT_EQ(mpi_bridge::network_of_this_host().launcher, "the launcher of the step");
    unsetenv("SLURM_LAUNCH_NODE_IPADDR");
    unsetenv("MASTER_ADDR");
}

}  // namespace

// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/relay/listening.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>

namespace batchai::visit {
namespace {

constexpr std::uint16_t port = 6006;
constexpr uid_t alice = 1000;
constexpr uid_t bob = 1001;

SocketRow listener(const Endpoint& place, uid_t user, std::uint64_t inode = 1) {
    return {.local = place, .state = SocketState::listening, .uid = user, .inode = inode};
}

const Endpoint loopback = ipv4(INADDR_LOOPBACK, port);
const Endpoint any = ipv4(INADDR_ANY, port);
const Endpoint any6{.address = {}, .port = port};
const Endpoint elsewhere = ipv4(0x0A000001, port);

PortState state(const std::vector<SocketRow>& rows) {
    return listening_on(port, rows, alice).state;
}

TEST(Listening, IsSilentWithoutASocket) {
    EXPECT_EQ(state({}), PortState::silent);
    EXPECT_EQ(state({listener(ipv4(INADDR_LOOPBACK, port + 1), alice)}), PortState::silent);
    SocketRow connected = listener(loopback, alice);
    connected.state = SocketState::connected;
    EXPECT_EQ(state({connected}), PortState::silent);
}

TEST(Listening, IsTheUsersOwn) {
    EXPECT_EQ(listening_on(port, {listener(loopback, alice)}, alice).place, loopback);
    EXPECT_EQ(listening_on(port, {listener(any, alice)}, alice).place, loopback);
    EXPECT_EQ(listening_on(port, {listener(any6, alice)}, alice).place, ipv6_loopback(port));
    EXPECT_EQ(listening_on(port, {listener(elsewhere, alice)}, alice).place, elsewhere);
}

TEST(Listening, IsForeignIfSomebodyElseCouldGetTheConnection) {
    EXPECT_EQ(state({listener(loopback, bob)}), PortState::foreign);
    EXPECT_EQ(state({listener(any, alice), listener(loopback, bob)}), PortState::foreign);
    EXPECT_EQ(state({listener(any, bob), listener(elsewhere, alice)}), PortState::foreign);
    EXPECT_EQ(state({listener(any, alice), listener(any6, bob)}), PortState::foreign);
    EXPECT_EQ(state({listener(loopback, alice), listener(loopback, bob)}), PortState::foreign);
    EXPECT_EQ(state({listener(loopback, 0)}), PortState::foreign);
    EXPECT_EQ(state({listener(loopback, alice, 0)}), PortState::foreign) << "nobody has it";
}

TEST(Listening, IsTheUsersOwnWhereTheAddressIsMoreExact) {
    EXPECT_EQ(state({listener(any, bob), listener(loopback, alice)}), PortState::listens);
}

TEST(Listening, ChangesWithTheSocket) {
    EXPECT_NE(listening_on(port, {listener(loopback, alice, 1)}, alice),
              listening_on(port, {listener(loopback, alice, 2)}, alice));
}

}  // namespace
}  // namespace batchai::visit

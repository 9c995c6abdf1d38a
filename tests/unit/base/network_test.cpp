// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/network.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace batchai::base {

namespace {

bool can_bind_and_listen(int port, bool reuse) {
    const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = reuse ? 1 : 0;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
           listen(socket.get(), 1) == 0;
}

}  // namespace

TEST(AddressOf, FallsBackToTheName) {
    EXPECT_EQ(address_of("no-such-host.invalid"), "no-such-host.invalid");
}

TEST(AddressOf, IsNeverThatOfTheLoopback) {
    EXPECT_EQ(address_of("localhost"), "localhost");
}

TEST(ReservedPort, IsFreeForARankAndForNobodyElse) {
    const auto port = ReservedPort::reserve();
    ASSERT_TRUE(port);
    EXPECT_TRUE(can_bind_and_listen(port->number(), true));
    EXPECT_FALSE(can_bind_and_listen(port->number(), false));
}

}  // namespace batchai::base

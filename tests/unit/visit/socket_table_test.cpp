// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/relay/socket_table.hpp"

#include <initializer_list>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include "visit/relay/tunnel.hpp"

namespace batchai::visit {
namespace {

constexpr const char* table =
    R"(  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1776 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 40 1 0000000000000000 100 0 0 10 0
   1: 0100007F:9C40 0100007F:1776 01 00000000:00000000 00:00000000 00000000  1001        0 41 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:9C41 0100007F:1776 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0000000000000000
   3: 0100007F:9C42 0100007F:1776 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 30 10 -1
 broken 0100007F:XXXX
   4: 0100007F:9C43
)";

constexpr std::uint16_t here = 0x1776;

TEST(SocketTable, IsReadAsTheKernelPrintsIt) {
    const auto rows = parse_socket_table(table);
    ASSERT_EQ(rows.size(), 4U);
    EXPECT_EQ(rows[0], (SocketRow{ipv4(INADDR_LOOPBACK, here), ipv4(0, 0), SocketState::listening,
                                  1000, 40}));
    EXPECT_EQ(rows[1].local, ipv4(INADDR_LOOPBACK, 40000));
    EXPECT_EQ(rows[1].uid, 1001U);
    EXPECT_EQ(rows[2].state, SocketState::other);
}

TEST(SocketTable, HasAddressesOfIpv6AndOfIpv4InThem) {
    const auto rows = parse_socket_table(
        "0: 00000000000000000000000001000000:1776 00000000000000000000000000000000:0000 0A 0:0 0:0 "
        "0 7 0 5 1\n"
        "1: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:1776 01 0:0 0:0 "
        "0 7 0 6 1\n");
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].local, ipv6_loopback(here));
    EXPECT_EQ(user_of_peer(rows, ipv4(INADDR_LOOPBACK, here), ipv4(INADDR_LOOPBACK, 40000)), 7U);
}

// The kernel shows user 0 for a socket that no process has any more.
TEST(SocketTable, TellsNobodyForASocketWithoutAProcess) {
    const auto rows = parse_socket_table(table);
    const auto user = [&](std::uint16_t port) {
        return user_of_peer(rows, ipv4(INADDR_LOOPBACK, here), ipv4(INADDR_LOOPBACK, port));
    };
    EXPECT_EQ(user(40000), 1001U);
    for (const std::uint16_t port : std::initializer_list<std::uint16_t>{40001, 40002, 40003})
        EXPECT_EQ(user(port), std::nullopt) << port;
}

class Connection : public testing::TestWithParam<int> {
  protected:
    // A connection of this process to a listener of its own.
    base::FileDescriptor connect_to(const Forward& forward) {
        base::FileDescriptor client(socket(GetParam(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_storage address{};
        socklen_t length = socket_address(ipv4(INADDR_LOOPBACK, forward.here), address);
        if (GetParam() == AF_INET6) {
            auto& six = reinterpret_cast<sockaddr_in6&>(address);
            const auto mapped = ipv4(INADDR_LOOPBACK, forward.here);
            address = {};
            six.sin6_family = AF_INET6;
            six.sin6_port = htons(forward.here);
            std::copy(mapped.address.begin(), mapped.address.end(),
                      reinterpret_cast<std::uint8_t*>(&six.sin6_addr));
            length = sizeof six;
        }
        EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), length), 0) << errno;
        return client;
    }
};

TEST_P(Connection, BelongsToTheUserOfItsOtherEnd) {
    const auto forward = listen_here(0, 1);
    ASSERT_TRUE(forward);
    auto client = connect_to(*forward);
    const base::FileDescriptor accepted(accept(forward->listeners.front().get(), nullptr, nullptr));
    EXPECT_EQ(user_of_peer(accepted.get()), geteuid());
    shutdown(client.get(), SHUT_WR);
    EXPECT_EQ(user_of_peer(accepted.get()), geteuid()) << "half closed";
    client.reset(-1);
    EXPECT_EQ(user_of_peer(accepted.get()), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Of, Connection, testing::Values(AF_INET, AF_INET6));

}  // namespace
}  // namespace batchai::visit

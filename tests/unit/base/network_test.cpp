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

// A socket on the loopback; its port is open only if it listens.
class Door {
  public:
    explicit Door(bool listens) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        EXPECT_EQ(bind(socket_.get(), generic, length), 0);
        EXPECT_EQ(getsockname(socket_.get(), generic, &length), 0);
        if (listens) {
            EXPECT_EQ(listen(socket_.get(), 1), 0);
        }
        endpoint_ = {.address = "127.0.0.1", .port = ntohs(address.sin_port)};
    }
    [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

  private:
    FileDescriptor socket_;
    Endpoint endpoint_;
};

TEST(ListensAt, TellsAnOpenPortFromAClosedOneAndFromNoHost) {
    const Door open(true);
    const Door closed(false);
    const Endpoint nowhere{.address = "no-such-host.invalid", .port = 1};
    EXPECT_EQ(listens_at({open.endpoint(), closed.endpoint(), nowhere, open.endpoint()},
                         std::chrono::seconds(5)),
              (std::vector<bool>{true, false, false, true}));
    EXPECT_TRUE(listens_at({}, std::chrono::seconds(5)).empty());
}

// Nobody answers from a network that is reserved for documentation.
TEST(ListensAt, GivesUpAfterItsPatience) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(listens_at({{.address = "192.0.2.1", .port = 9}}, std::chrono::milliseconds(50)),
              std::vector<bool>{false});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(ReservedPort, IsFreeForARankAndForNobodyElse) {
    const auto port = ReservedPort::reserve();
    ASSERT_TRUE(port);
    EXPECT_TRUE(can_bind_and_listen(port->number(), true));
    EXPECT_FALSE(can_bind_and_listen(port->number(), false));
}

}  // namespace batchai::base

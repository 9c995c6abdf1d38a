// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/network.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
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

TEST(IsLoopbackOnly, TellsANameThatOnlyThisHostUnderstands) {
    EXPECT_TRUE(is_loopback_only("localhost"));
    EXPECT_FALSE(is_loopback_only("no-such-host.invalid"));
    EXPECT_FALSE(is_loopback_only("192.0.2.1"));
}

TEST(OwnAddressTowards, IsNeverThatOfTheLoopback) {
    EXPECT_FALSE(own_address_towards("127.0.0.1"));
    EXPECT_FALSE(own_address_towards("::1"));
    EXPECT_FALSE(own_address_towards("no number"));
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

TEST(KnockAtPorts, TellsAnOpenPortFromAClosedOneAndFromWhatCannotBeAsked) {
    const Door open(true);
    const Door closed(false);
    const Endpoint name{.address = "localhost", .port = 1};
    EXPECT_EQ(
        knock({open.endpoint(), closed.endpoint(), name, open.endpoint()}, std::chrono::seconds(5)),
        (std::vector<Knock>{Knock::open, Knock::refused, Knock::unknown, Knock::open}));
    EXPECT_TRUE(knock({}, std::chrono::seconds(5)).empty());
}

TEST(Resolved, HasAllAddressesOfAHostAndNoneOfNoHost) {
    const Endpoint number{.address = "127.0.0.1", .port = 7};
    EXPECT_EQ(resolved(number), std::vector<Endpoint>{number});
    EXPECT_THAT(resolved({.address = "localhost", .port = 7}), testing::Contains(number));
    EXPECT_TRUE(resolved({.address = "no-such-host.invalid", .port = 7}).empty());
}

TEST(ReservedPort, IsFreeForARankAndForNobodyElse) {
    const auto port = ReservedPort::reserve();
    ASSERT_TRUE(port);
    EXPECT_TRUE(can_bind_and_listen(port->number(), true));
    EXPECT_FALSE(can_bind_and_listen(port->number(), false));
}

}  // namespace batchai::base

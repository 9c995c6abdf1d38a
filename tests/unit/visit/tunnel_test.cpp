// SPDX-License-Identifier: GPL-2.0-or-later
// Both sides of the tunnel, joined by pipes, with servers and clients of this process.
#include "visit/relay/tunnel.hpp"

#include <atomic>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.hpp"

namespace batchai::visit {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::Pair;

std::string bytes_of(std::size_t count, unsigned int seed) {
    std::string bytes(count, '\0');
    for (char& byte : bytes)
        byte = static_cast<char>((seed = seed * 1103515245U + 12345U) >> 16U);
    return bytes;
}

// A server that reads to the end, and sends back what it has got.
class EchoServer {
  public:
    explicit EchoServer(int clients) : forward_(*listen_here(0, 1)) {
        thread_ = std::thread([this, clients] {
            std::vector<std::thread> threads;
            for (int i = 0; i < clients; ++i) {
                const int client = wait_for_client();
                threads.emplace_back([client] {
                    const std::string all = base::read_to_end(client);
                    EXPECT_TRUE(base::write_all(client, all));
                    close(client);
                });
            }
            for (auto& thread : threads)
                thread.join();
        });
    }
    ~EchoServer() { thread_.join(); }
    [[nodiscard]] std::uint16_t port() const { return forward_.here; }

  private:
    int wait_for_client() {
        while (true) {
            const int client = accept(forward_.listeners.front().get(), nullptr, nullptr);
            if (client >= 0) return client;
            std::this_thread::sleep_for(milliseconds(1));
        }
    }
    Forward forward_;
    std::thread thread_;
};

int client_of(std::uint16_t port) {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_storage address{};
    const socklen_t length = socket_address(ipv4(INADDR_LOOPBACK, port), address);
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), length), 0);
    return client;
}

std::string exchange(std::uint16_t port, const std::string& bytes) {
    const int client = client_of(port);
    std::thread writer([&] {
        EXPECT_TRUE(base::write_all(client, bytes));
        shutdown(client, SHUT_WR);
    });
    std::string answer = base::read_to_end(client);
    writer.join();
    close(client);
    return answer;
}

class TunnelTest : public testing::Test {
  protected:
    void SetUp() override { signal(SIGPIPE, SIG_IGN); }

    // Starts both sides, for one port of the node.
    std::uint16_t start(std::uint16_t there) {
        auto to_node = *base::make_pipe();
        auto from_node = *base::make_pipe();
        node_ =
            std::thread([in = std::move(to_node.read_end), out = std::move(from_node.write_end)] {
                EXPECT_TRUE(serve_node(in.get(), out.get()));
            });
        std::vector<Forward> forwards;
        forwards.push_back(*listen_here(0, there));
        const std::uint16_t here = forwards[0].here;
        command_ = std::thread([this, in = std::move(from_node.read_end),
                                out = std::move(to_node.write_end),
                                forwards = std::move(forwards)]() mutable {
            CommandSide side(std::move(forwards), in.get(), out.get(),
                             {.port_state =
                                  [this](std::uint16_t port, PortState state) {
                                      states_.emplace_back(port, state);
                                      last_ = static_cast<int>(state);
                                  },
                              .refused = [](std::optional<uid_t>) { ADD_FAILURE(); }});
            while (!stop_)
                ASSERT_EQ(side.turn(milliseconds(20), {}), Tunnel::Turn::goes_on);
        });
        return here;
    }
    void stop() {
        stop_ = true;
        command_.join();
        node_.join();
    }

    std::thread node_;
    std::thread command_;
    std::atomic<bool> stop_ = false;
    std::atomic<int> last_ = -1;
    std::vector<std::pair<std::uint16_t, PortState>> states_;
};

TEST_F(TunnelTest, CarriesSeveralConnectionsUnchanged) {
    constexpr int clients = 5;
    EchoServer server(clients);
    const std::uint16_t here = start(server.port());
    std::vector<std::thread> threads;
    for (unsigned int i = 0; i < clients; ++i) {
        threads.emplace_back([&, i] {
            const std::string bytes = bytes_of(3000000 + i, i);
            EXPECT_EQ(exchange(here, bytes) == bytes, true) << i;
        });
    }
    for (auto& thread : threads)
        thread.join();
    stop();
    EXPECT_THAT(states_, Contains(Pair(server.port(), PortState::listens)));
}

// Breaks when the window of one connection is that of all.
TEST_F(TunnelTest, DoesNotWaitForAConnectionThatNobodyReads) {
    EchoServer server(2);
    const std::uint16_t here = start(server.port());
    const int stuck = client_of(here);
    const std::string much = bytes_of(8U << 20U, 1);
    EXPECT_TRUE(base::write_all(stuck, much));
    shutdown(stuck, SHUT_WR);  // its echo comes, and is not read
    const std::string bytes = bytes_of(2000000, 2);
    EXPECT_EQ(exchange(here, bytes) == bytes, true);
    EXPECT_EQ(base::read_to_end(stuck) == much, true);
    close(stuck);
    stop();
}

// Breaks when "localhost" can lead to the port of another user, who took the number on ::1.
TEST_F(TunnelTest, ListensOnBothLoopbackAddressesOrOnNone) {
    sockaddr_storage address{};
    socklen_t length = socket_address(ipv6_loopback(0), address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    const base::FileDescriptor others(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!others.valid() || bind(others.get(), generic, length) != 0)
        GTEST_SKIP() << "this host has no IPv6";
    ASSERT_EQ(listen(others.get(), 1), 0);
    ASSERT_EQ(getsockname(others.get(), generic, &length), 0);
    const std::uint16_t taken = endpoint_of(address)->port;
    const auto refused = listen_here(taken, 1);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().what, testing::HasSubstr("Address already in use"));
    const auto forward = listen_here(0, 1);
    ASSERT_TRUE(forward);
    EXPECT_EQ(forward->listeners.size(), 2U);
    length = socket_address(ipv6_loopback(forward->here), address);
    const base::FileDescriptor client(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client.get(), generic, length), 0);
}

TEST_F(TunnelTest, WaitsUntilSomethingListens) {
    // The port is taken from the beginning, so that nobody else gets it: neither the tunnel nor a
    // test of another process.
    const base::FileDescriptor late(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage address{};
    socklen_t length = socket_address(ipv4(INADDR_LOOPBACK, 0), address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(bind(late.get(), generic, length), 0);
    ASSERT_EQ(getsockname(late.get(), generic, &length), 0);
    const std::uint16_t there = endpoint_of(address)->port;
    const std::uint16_t here = start(there);
    while (last_ != static_cast<int>(PortState::silent))
        std::this_thread::sleep_for(milliseconds(5));
    const int client = client_of(here);
    EXPECT_TRUE(base::write_all(client, "hello"));
    EXPECT_EQ(listen(late.get(), 1), 0);
    const int accepted = accept(late.get(), nullptr, nullptr);
    std::array<char, 5> greeting{};
    EXPECT_EQ(recv(accepted, greeting.data(), greeting.size(), MSG_WAITALL), 5);
    EXPECT_EQ(std::string(greeting.data(), 5), "hello");
    close(accepted);
    EXPECT_EQ(base::read_to_end(client), "");
    close(client);
    stop();
    EXPECT_EQ(states_, (std::vector<std::pair<std::uint16_t, PortState>>{
                           {there, PortState::silent}, {there, PortState::listens}}));
}

// Lets this process have no more descriptors than it has, and as many as before in the end.
class NoMoreDescriptors {
  public:
    NoMoreDescriptors() {
        getrlimit(RLIMIT_NOFILE, &before_);
        const base::FileDescriptor next(dup(STDOUT_FILENO));
        rlimit now = before_;
        now.rlim_cur = static_cast<rlim_t>(next.get());
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
    }
    ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
    NoMoreDescriptors(const NoMoreDescriptors&) = delete;
    NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;

  private:
    rlimit before_{};
};

TEST(TunnelWithoutDescriptors, WaitsForThem) {
    const auto to_command = *base::make_pipe();
    const auto from_command = *base::make_pipe();
    std::vector<Forward> forwards;
    forwards.push_back(*listen_here(0, 1));
    const std::uint16_t here = forwards[0].here;
    std::vector<int> waited_for;
    CommandSide side(std::move(forwards), to_command.read_end.get(), from_command.write_end.get(),
                     {.port_state = [](std::uint16_t, PortState) {},
                      .refused = [](std::optional<uid_t>) { ADD_FAILURE(); },
                      .waits = [&](int code) { waited_for.push_back(code); }});
    {
        const NoMoreDescriptors none;
        ASSERT_EQ(side.turn(milliseconds(10), {}), Tunnel::Turn::goes_on);
        EXPECT_THAT(waited_for, testing::IsEmpty());  // nobody waits
    }
    const int client = client_of(here);
    {
        const NoMoreDescriptors none;
        int turns = 0;
        const auto until = std::chrono::steady_clock::now() + milliseconds(300);
        for (; std::chrono::steady_clock::now() < until; ++turns)
            ASSERT_EQ(side.turn(milliseconds(100), {}), Tunnel::Turn::goes_on);
        EXPECT_LE(turns, 10);
        EXPECT_EQ(waited_for, std::vector<int>{EMFILE});
    }
    // It is accepted now: what it says is sent to the node.
    EXPECT_TRUE(base::write_all(client, "hello"));
    std::string sent;
    while (sent.find("hello") == std::string::npos) {
        ASSERT_EQ(side.turn(milliseconds(100), {}), Tunnel::Turn::goes_on);
        std::array<char, 4096> some{};
        pollfd waiting{.fd = from_command.read_end.get(), .events = POLLIN, .revents = 0};
        if (poll(&waiting, 1, 0) != 1) continue;
        const auto count = read(waiting.fd, some.data(), some.size());
        ASSERT_GT(count, 0);
        sent.append(some.data(), static_cast<std::size_t>(count));
    }
    close(client);
}

TEST(TunnelOfABrokenStream, FailsAndSaysWhy) {
    auto to_command = *base::make_pipe();
    auto from_command = *base::make_pipe();
    CommandSide side({}, to_command.read_end.get(), from_command.write_end.get(), {});
    ASSERT_TRUE(base::write_all(to_command.write_end.get(), std::string(preamble) + "not a frame"));
    EXPECT_EQ(side.turn(milliseconds(1000), {}), Tunnel::Turn::failed);
    EXPECT_NE(side.fault(), "");
}

}  // namespace
}  // namespace batchai::visit

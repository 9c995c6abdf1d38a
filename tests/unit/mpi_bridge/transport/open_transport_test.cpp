// SPDX-License-Identifier: Apache-2.0
#include "transport/open_transport.hpp"

#include <cstring>
#include <filesystem>
#include <thread>

#include <grp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mesh.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/handshake.hpp"
#include "transport/wire_version.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::FileDescriptor;
using mpi_bridge::open_transport;
using mpi_bridge::TcpAddress;
using mpi_bridge::Transport;
using mpi_bridge::TransportWishes;

// The sockets of this process that other hosts could connect to.
int internet_sockets() {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        int domain = 0;
        socklen_t length = sizeof domain;
        const int number = std::stoi(entry.path().filename());
        if (getsockopt(number, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) continue;
        if (domain == AF_INET || domain == AF_INET6) ++count;
    }
    return count;
}

using Addresses = std::vector<std::vector<std::byte>>;

// Two ranks of this host that publish their addresses here.
std::vector<std::unique_ptr<Transport>> two_ranks(const std::string& network,
                                                  Addresses& addresses) {
    addresses.resize(2);
    std::vector<std::unique_ptr<Transport>> ranks;
    for (std::size_t rank = 0; rank < 2; ++rank) {
        TransportWishes wishes;
        wishes.network = network;
        wishes.rank = static_cast<int>(rank);
        wishes.size = wishes.local_size = 2;
        wishes.publish = [&addresses,
                          rank](std::span<const std::byte> address) -> mpi_bridge::Done {
            addresses[rank].assign(address.begin(), address.end());
            return {};
        };
        wishes.fetch = [&addresses](int other) -> mpi_bridge::Outcome<std::vector<std::byte>> {
            return addresses[static_cast<std::size_t>(other)];
        };
        ranks.push_back(must(open_transport(wishes)));
    }
    return ranks;
}

// Breaks when ranks of one host open a port, or cannot talk without.
TEST(OpenTransport, RanksOfOneHostOpenNoPort) {
    const int before = internet_sockets();
    Addresses addresses;
    const auto ranks = two_ranks("auto", addresses);
    const auto out = noise(100000, 1);
    std::vector<std::byte> in(out.size());
    const auto receive = must(ranks[1]->post_receive(0, {}, in));
    const auto sent = must(ranks[0]->post_send(1, {}, out));
    std::thread sender([&] { EXPECT_EQ(text_of(ranks[0]->wait(sent, soon())), "done"); });
    EXPECT_EQ(text_of(ranks[1]->wait(receive, soon())), "done");
    sender.join();
    EXPECT_EQ(in, out);
    EXPECT_EQ(internet_sockets(), before);
}

// Breaks when libraries of different versions misread each other instead of saying so.
TEST(OpenTransport, AnotherVersionOfTheLibraryIsRefused) {
    for (const auto* network : {"tcp", "ucx"}) {
        Addresses addresses;
        const auto ranks = two_ranks(network, addresses);
        addresses[1].at(1) = std::byte{2};
        const std::byte out{1};
        const auto sent = ranks[0]->post_send(1, {}, {&out, 1});
        ASSERT_FALSE(sent) << network;
        EXPECT_EQ(sent.error().status, MPIB_ERROR_BOOTSTRAP);
        EXPECT_NE(sent.error().text.find("rank 0 and rank 1 have loaded different versions of "
                                         "libmpi_bridge (wire formats " +
                                         std::to_string(mpi_bridge::wire_version) + " and 2)"),
                  std::string::npos)
            << sent.error().text;
    }
}

// Breaks when another user of the host is heard, even one who has got to know the secret.
TEST(OpenTransport, AnotherUserOfTheHostIsNotHeard) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    Mesh mesh(Kind::on_host);
    const auto address = must(TcpAddress::parse(mesh.address(1)));
    const auto hello = must(mpi_bridge::TcpHandshake::call(address.secret, 0, 1)).hello();
    // 0: it was answered; 1: it was not.
    const auto ask_as = [&](uid_t user) {
        const pid_t child = fork();
        if (child == 0) {
            if (setgroups(0, nullptr) != 0 || setuid(user) != 0) _exit(2);
            const auto& endpoint = address.endpoints.front();
            const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
            if (connect(socket.number(), endpoint.generic(), endpoint.length()) != 0) _exit(3);
            (void)send(socket.number(), &hello, sizeof hello, MSG_NOSIGNAL);
            std::byte answer{};
            _exit(recv(socket.number(), &answer, 1, 0) == 1 ? 0 : 1);
        }
        int status = 0;
        while (waitpid(child, &status, WNOHANG) == 0)
            mesh[1].progress();
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    };
    EXPECT_EQ(ask_as(0), 0);
    EXPECT_EQ(ask_as(65534), 1);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// What is TCP's own: sockets that take little at a time, strangers, processes that die.
#include <atomic>
#include <csignal>
#include <thread>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mesh.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/transport.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Channel;
using mpi_bridge::Deadline;
using mpi_bridge::FileDescriptor;
using mpi_bridge::Seconds;
using mpi_bridge::TcpAddress;

// Breaks when a message of which the socket took a part is continued wrongly.
TEST(TcpTransport, MessagesArriveThroughTinySocketBuffers) {
    Mesh mesh(Kind::tcp, 2, [](auto& options) { options.send_buffer_bytes = 1; });
    constexpr unsigned messages = 20;
    const auto both_ways = [&](int rank) {
        std::vector<std::vector<std::byte>> in;
        std::vector<std::vector<std::byte>> out;
        std::vector<mpi_bridge::Request> requests;
        for (unsigned number = 0; number < messages; ++number) {
            const std::size_t length = number * 7919;
            const auto seed = number + static_cast<unsigned>(rank) * 100;
            out.push_back(noise(length, seed));
            in.emplace_back(length);
            requests.push_back(must(mesh[rank].post_send(1 - rank, {1, number, 0, 0}, out.back())));
            requests.push_back(
                must(mesh[rank].post_receive(1 - rank, {1, number, 0, 0}, in.back())));
        }
        for (const auto request : requests)
            EXPECT_EQ(text_of(mesh[rank].wait(request, soon())), "done");
        for (unsigned number = 0; number < messages; ++number) {
            const auto seed = number + static_cast<unsigned>(1 - rank) * 100;
            EXPECT_EQ(in[number], noise(number * 7919, seed));
        }
    };
    std::thread other(both_ways, 1);
    both_ways(0);
    other.join();
}

// Breaks when everything that is sent is kept, however much; or when what is not read holds up what
// is waited for.
TEST(TcpTransport, MuchThatNobodyAsksForStaysWithTheSenderAndHoldsNothingUp) {
    constexpr std::size_t length = 1 << 20;
    constexpr unsigned messages = 40;
    Mesh mesh(Kind::tcp, 2, [](auto& options) {
        options.most_kept_bytes = 1 << 20;
        options.send_buffer_bytes = 1 << 16;
    });
    const auto out = noise(length, 1);
    std::vector<mpi_bridge::Request> sends;
    for (unsigned number = 0; number < messages; ++number)
        sends.push_back(must(mesh[0].post_send(1, {1, number, 0, 0}, out)));
    const auto last = must(mesh[0].post_send(1, {2, 0, 0, 0}, out));
    std::atomic<bool> ended{false};
    std::thread receiver([&] {
        while (!ended)
            mesh[1].progress();
    });
    EXPECT_EQ(status_of(mesh[0].wait(last, Deadline::in(Seconds(0.3)))), MPIB_ERROR_TIMEOUT);
    ended = true;
    receiver.join();

    std::vector<std::byte> in(length);
    const auto wanted = must(mesh[1].post_receive(0, {2, 0, 0, 0}, in));
    std::thread sender([&] { EXPECT_EQ(text_of(mesh[0].wait(last, soon())), "done"); });
    EXPECT_EQ(text_of(mesh[1].wait(wanted, soon())), "done");
    sender.join();
    EXPECT_EQ(in, out);
    for (unsigned number = 0; number < messages; ++number) {
        const auto receive = must(mesh[1].post_receive(0, {1, number, 0, 0}, in));
        EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
    }
    for (const auto send : sends)
        EXPECT_EQ(text_of(mesh[0].wait(send, soon())), "done");
}

// Breaks when a thread that waits for a message of the program's, or of the engine's negotiation,
// has everything read that collectives send, or when their data holds such a message up.
TEST(TcpTransport, AThreadThatWaitsForANoteLeavesTheDataOfCollectivesWithTheSender) {
    for (const auto lane : {Channel::Lane::control, Channel::Lane::messages}) {
        const std::uint32_t channel = Channel{lane, 0}.number();
        constexpr std::size_t length = 1 << 20;
        Mesh mesh(Kind::tcp, 2, [](auto& options) {
            options.most_kept_bytes = length;
            options.send_buffer_bytes = 1 << 16;
        });
        const auto out = noise(length, 1);
        mpi_bridge::Request last = 0;
        for (unsigned number = 0; number < 40; ++number)
            last = must(mesh[0].post_send(1, {0, number, 0, 0}, out));
        const auto note = must(mesh[0].post_send(1, {channel, 1, 0, 0}, out));

        const auto receive_note = [&](int from, int to) {
            const auto never = [] { return false; };
            EXPECT_EQ(must(mesh[to].await_message(channel, 1, never, soon())),
                      mpi_bridge::Transport::Arrival::message);
            std::vector<std::byte> in(length);
            const auto receive = must(mesh[to].post_receive(from, {channel, 1, 0, 0}, in));
            EXPECT_EQ(text_of(mesh[to].wait(receive, soon())), "done");
            EXPECT_EQ(in, out);
        };
        std::thread other([&] {
            receive_note(0, 1);
            const auto answer = must(mesh[1].post_send(0, {channel, 1, 0, 0}, out));
            EXPECT_EQ(text_of(mesh[1].wait(answer, soon())), "done");
        });
        EXPECT_EQ(text_of(mesh[0].wait(note, soon())), "done");
        receive_note(1, 0);
        other.join();
        // With the note all that was sent before it would have been read.
        EXPECT_EQ(status_of(mesh[0].wait(last, Deadline::in(Seconds(0)))), MPIB_ERROR_TIMEOUT);
        mesh[0].abandon();
    }
}

// Breaks when fewer bits are compared than the header has.
TEST(TcpTransport, AllBitsOfTheAgreementCount) {
    for (unsigned bit = 0; bit < 32; ++bit) {
        Mesh mesh(Kind::tcp);
        const auto out = noise(8, 1);
        std::vector<std::byte> in(8);
        const auto receive = must(mesh[1].post_receive(0, {0, 0, 0, 0x5a5a5a5a}, in));
        const auto sent = must(mesh[0].post_send(1, {0, 0, 0, 0x5a5a5a5aU ^ (1U << bit)}, out));
        std::thread sender([&] { EXPECT_EQ(text_of(mesh[0].wait(sent, soon())), "done"); });
        EXPECT_EQ(status_of(mesh[1].wait(receive, soon())), MPIB_ERROR_MISMATCH) << bit;
        sender.join();
    }
}

// Breaks when the connection that is not read for lack of a receive hides that its rank has left.
TEST(TcpTransport, ARankHasLeftWhenItHasLeftBothConnections) {
    Mesh mesh(Kind::tcp);
    const std::uint32_t channel = Channel{Channel::Lane::messages, 0}.number();
    const auto out = noise(8, 1);
    for (const std::uint32_t each : {0U, channel}) {
        const auto sent = must(mesh[0].post_send(1, {each, 0, 0, 0}, out));
        std::thread mover([&] { EXPECT_EQ(text_of(mesh[0].wait(sent, soon())), "done"); });
        std::vector<std::byte> in(8);
        const auto receive = must(mesh[1].post_receive(0, {each, 0, 0, 0}, in));
        EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
        mover.join();
        EXPECT_FALSE(mesh[1].is_gone(0));
    }
    std::thread leaver([&] { mesh[0].close(soon()); });
    while (!mesh[1].is_gone(0))
        mesh[1].progress();
    leaver.join();
}

// Breaks when a rank that has said goodbye over one connection is lost, and with it the job,
// because the other one can no longer be made.
TEST(TcpTransport, ARankThatHasLeftIsNotLostForWantOfTheOtherConnection) {
    Mesh mesh(Kind::tcp);
    const std::uint32_t channel = Channel{Channel::Lane::messages, 0}.number();
    const auto out = noise(8, 1);
    const auto sent = must(mesh[0].post_send(1, {0, 0, 0, 0}, out));
    std::thread leaver([&] {
        EXPECT_EQ(text_of(mesh[0].wait(sent, soon())), "done");
        mesh[0].close(soon());
        mesh.end(0);
    });
    std::vector<std::byte> in(8);
    const auto receive = must(mesh[1].post_receive(0, {0, 0, 0, 0}, in));
    EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
    leaver.join();
    // Nothing was read since.
    const auto note = must(mesh[1].post_send(0, {channel, 0, 0, 0}, out));
    const auto never = [] { return false; };
    while (!mesh[1].is_gone(0))
        mesh[1].progress();
    EXPECT_EQ(text_of(mesh[1].wait(note, soon())), "rank 0 (it has left)");
    EXPECT_EQ(must(mesh[1].await_message(channel, 1, never, Deadline::in(Seconds(0.01)))),
              mpi_bridge::Transport::Arrival::late);
    mesh[1].abandon();
}

// Breaks when two ranks that call each other at once get two connections, or none.
TEST(TcpTransport, RanksThatCallEachOtherAtOnceMeet) {
    for (int attempt = 0; attempt < 30; ++attempt) {
        constexpr int size = 4;
        Mesh mesh(Kind::tcp, size);
        std::atomic<int> ready{0};
        std::vector<std::thread> ranks;
        for (int rank = 0; rank < size; ++rank) {
            ranks.emplace_back([&, rank] {
                ++ready;
                while (ready < size)
                    std::this_thread::yield();
                const auto out = noise(100, static_cast<unsigned>(rank));
                std::vector<std::vector<std::byte>> in(size, std::vector<std::byte>(100));
                std::vector<mpi_bridge::Request> requests;
                for (int other = 0; other < size; ++other) {
                    if (other == rank) continue;
                    requests.push_back(must(mesh[rank].post_send(other, {}, out)));
                    requests.push_back(must(
                        mesh[rank].post_receive(other, {}, in[static_cast<std::size_t>(other)])));
                }
                for (const auto request : requests)
                    EXPECT_EQ(text_of(mesh[rank].wait(request, soon())), "done");
                for (int other = 0; other < size; ++other) {
                    if (other == rank) continue;
                    EXPECT_EQ(in[static_cast<std::size_t>(other)],
                              noise(100, static_cast<unsigned>(other)));
                }
            });
        }
        for (auto& rank : ranks)
            rank.join();
    }
}

FileDescriptor connected_to(const TcpAddress& address) {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto& endpoint = address.endpoints.front();
    EXPECT_EQ(connect(socket.number(), endpoint.generic(), endpoint.length()), 0);
    return socket;
}

// Breaks when somebody who merely knows the port can speak for a rank, or stop others from meeting.
TEST(TcpTransport, StrangersAreDropped) {
    Mesh mesh(Kind::tcp);
    const auto address = must(TcpAddress::parse(mesh.address(1)));
    const auto silent = connected_to(address);
    const auto loud = connected_to(address);
    const std::string request(1000, 'G');
    EXPECT_EQ(send(loud.number(), request.data(), request.size(), 0), 1000);

    const auto out = noise(8, 1);
    std::vector<std::byte> in(8);
    const auto receive = must(mesh[1].post_receive(0, {}, in));
    const auto sent = must(mesh[0].post_send(1, {}, out));
    std::thread sender([&] { EXPECT_EQ(text_of(mesh[0].wait(sent, soon())), "done"); });
    EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
    sender.join();
    EXPECT_EQ(in, out);
    std::array<char, 64> answer{};
    EXPECT_LE(recv(loud.number(), answer.data(), answer.size(), 0), 0);
}

TEST(TcpTransport, ARankWithTheWrongSecretIsDropped) {
    Mesh mesh(Kind::tcp);
    // The secret comes first.
    mesh.address(1).front() ^= std::byte{1};
    const auto out = noise(8, 1);
    const auto send = must(mesh[0].post_send(1, {}, out));
    std::atomic<bool> ended{false};
    std::thread other([&] {
        while (!ended)
            mesh[1].progress();
    });
    EXPECT_EQ(status_of(mesh[0].wait(send, soon())), MPIB_ERROR_PEER_LOST);
    ended = true;
    other.join();
    mesh[0].abandon();
}

TEST(TcpTransport, ARankThatDoesNotListenIsLost) {
    Mesh mesh(Kind::tcp);
    mesh.end(1);
    const auto out = noise(8, 1);
    const auto send = must(mesh[0].post_send(1, {}, out));
    const auto done = mesh[0].wait(send, soon());
    EXPECT_EQ(status_of(done), MPIB_ERROR_PEER_LOST);
    EXPECT_TRUE(text_of(done).starts_with("rank 1 (connecting to 127.0.0.1:")) << text_of(done);
    mesh[0].abandon();
}

TEST(TcpTransport, AnAddressThatIsNoneIsRefused) {
    Mesh mesh(Kind::tcp);
    mesh.address(1).pop_back();
    const auto out = noise(8, 1);
    const auto send = mesh[0].post_send(1, {}, out);
    ASSERT_FALSE(send);
    EXPECT_EQ(send.error().status, MPIB_ERROR_BOOTSTRAP);
}

TEST(TcpTransport, Ipv6ServesToo) {
    FileDescriptor probe(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto loopback = must(mpi_bridge::TcpEndpoint::parse("::1"));
    if (!probe || bind(probe.number(), loopback.generic(), loopback.length()) != 0) {
        GTEST_SKIP() << "no IPv6 on this machine";
    }
    Mesh mesh(Kind::tcp, 2, [](auto& options) { options.addresses = {"::1"}; });
    const auto out = noise(8, 1);
    std::vector<std::byte> in(8);
    const auto receive = must(mesh[1].post_receive(0, {}, in));
    const auto sent = must(mesh[0].post_send(1, {}, out));
    std::thread sender([&] { EXPECT_EQ(text_of(mesh[0].wait(sent, soon())), "done"); });
    EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
    sender.join();
    EXPECT_EQ(in, out);
}

// Breaks when a process that is killed is noticed only at the deadline.
TEST(TcpTransport, AKilledProcessIsNoticedAtOnce) {
    auto mesh = std::make_unique<Mesh>(Kind::tcp);
    std::vector<std::byte> in(8);
    const pid_t child = fork();
    if (child == 0) {
        // Its own copy of rank 0 meets the parent's rank 1.
        mesh->end(1);
        const auto out = noise(8, 1);
        if (auto sent = (*mesh)[0].post_send(1, {}, out)) (void)(*mesh)[0].wait(*sent, soon());
        pause();
        _exit(0);
    }
    mesh->end(0);
    const auto first = must((*mesh)[1].post_receive(0, {}, in));
    ASSERT_EQ(text_of((*mesh)[1].wait(first, soon())), "done");
    const auto second = must((*mesh)[1].post_receive(0, {}, in));
    std::thread killer([child] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        kill(child, SIGKILL);
    });
    EXPECT_EQ(status_of((*mesh)[1].wait(second, soon())), MPIB_ERROR_PEER_LOST);
    killer.join();
    waitpid(child, nullptr, 0);
    (*mesh)[1].abandon();
}

// Breaks when the end of a connection that comes in one event with data is noticed at the deadline.
TEST(TcpTransport, TheEndBehindTheLastMessageIsNoticedAtOnce) {
    // So many that a look asks for events, and tries no socket without one.
    constexpr int size = 12;
    auto mesh = std::make_unique<Mesh>(Kind::tcp, size);
    std::array<int, 2> gate{};
    ASSERT_EQ(pipe(gate.data()), 0);
    const auto out = noise(8, 1);
    const pid_t child = fork();
    if (child == 0) {
        for (int other = 1; other < size; ++other)
            mesh->end(other);
        if (auto sent = (*mesh)[0].post_send(1, {}, out)) (void)(*mesh)[0].wait(*sent, soon());
        char byte = 0;
        (void)!read(gate[0], &byte, 1);
        if (auto sent = (*mesh)[0].post_send(1, {}, out)) (void)(*mesh)[0].wait(*sent, soon());
        _exit(0);
    }
    mesh->end(0);
    auto& rank = (*mesh)[1];
    std::vector<std::vector<std::byte>> in(size, std::vector<std::byte>(8));
    const auto receive = [&](int from) {
        return must(rank.post_receive(from, {}, in[static_cast<std::size_t>(from)]));
    };
    ASSERT_EQ(text_of(rank.wait(receive(0), soon())), "done");
    for (int other = 2; other < size; ++other) {
        const auto sent = must((*mesh)[other].post_send(1, {}, out));
        const auto came = receive(other);
        std::thread sender([&] { EXPECT_EQ(text_of((*mesh)[other].wait(sent, soon())), "done"); });
        EXPECT_EQ(text_of(rank.wait(came, soon())), "done");
        sender.join();
        (void)receive(other);
    }
    while (rank.progress()) {
    }
    ASSERT_EQ(write(gate[1], "x", 1), 1);
    waitpid(child, nullptr, 0);
    // Both are here now, and are told in one event.
    EXPECT_EQ(text_of(rank.wait(receive(0), soon())), "done");
    EXPECT_EQ(status_of(rank.wait(receive(0), Deadline::in(Seconds(5)))), MPIB_ERROR_PEER_LOST);
    rank.abandon();
    for (const int end : gate)
        close(end);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Who may connect to a rank, and what those who may not can do to it.
#include <atomic>
#include <optional>
#include <thread>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mesh.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/handshake.hpp"
#include "transport/tcp/pending_handshakes.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Clock;
using mpi_bridge::FileDescriptor;
using mpi_bridge::Seconds;
using mpi_bridge::TcpAddress;
using mpi_bridge::TcpEndpoint;
using mpi_bridge::TcpHandshake;

FileDescriptor connected_to(const TcpAddress& address) {
    const auto& endpoint = address.endpoints.front();
    FileDescriptor socket(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(socket.number(), endpoint.generic(), endpoint.length()), 0);
    return socket;
}

template <typename Message>
void say(const FileDescriptor& socket, const Message& message) {
    EXPECT_EQ(send(socket.number(), &message, sizeof message, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof message));
}

// nullopt: the other side closed the connection instead.
template <typename Message>
std::optional<Message> hear(const FileDescriptor& socket) {
    const timeval limit{20, 0};
    setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    Message message{};
    if (recv(socket.number(), &message, sizeof message, MSG_WAITALL) != sizeof message) {
        return std::nullopt;
    }
    return message;
}

// Has a rank look all the time, as one does that waits for something.
class Looking {
  public:
    explicit Looking(mpi_bridge::Transport& rank)
        : thread_([this, &rank] {
              while (!ended_) {
                  if (!rank.progress()) std::this_thread::yield();
              }
          }) {}
    ~Looking() {
        ended_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> ended_{false};
    std::thread thread_;
};

// Rank `from` sends rank `to` something, which must arrive.
void expect_to_meet(Mesh& mesh, int from, int to) {
    const auto out = noise(1000, 1);
    std::vector<std::byte> in(out.size());
    const auto receive = must(mesh[to].post_receive(from, {}, in));
    const auto sent = must(mesh[from].post_send(to, {}, out));
    std::thread sender([&] { EXPECT_EQ(text_of(mesh[from].wait(sent, soon())), "done"); });
    EXPECT_EQ(text_of(mesh[to].wait(receive, soon())), "done");
    sender.join();
    EXPECT_EQ(in, out);
}

// A listener of the test's own, at which rank 0 looks for rank 1.
class Impostor {
  public:
    explicit Impostor(Mesh& mesh) : address_(must(TcpAddress::parse(mesh.address(1)))) {
        real_ = address_;
        auto endpoint = must(TcpEndpoint::parse("127.0.0.1"));
        listener_ = must(listen_at(endpoint));
        address_.endpoints = {endpoint};
        mesh.address(1) = address_.bytes();
    }
    FileDescriptor accept() {
        pollfd event{listener_.number(), POLLIN, 0};
        EXPECT_EQ(poll(&event, 1, 20000), 1);
        return FileDescriptor(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    [[nodiscard]] const TcpAddress& real() const { return real_; }

  private:
    TcpAddress address_;
    TcpAddress real_;
    FileDescriptor listener_;
};

// Breaks when a rank talks to somebody who has merely taken the port of another.
TEST(TcpStrangers, ACallerSaysNothingToOneWhoDoesNotKnowTheSecret) {
    Mesh mesh(Kind::tcp);
    Impostor impostor(mesh);
    const auto out = noise(1000, 1);
    const auto sent = must(mesh[0].post_send(1, {}, out));
    std::thread waiter([&] {
        const auto done = mesh[0].wait(sent, soon());
        EXPECT_EQ(status_of(done), MPIB_ERROR_PEER_LOST);
        EXPECT_NE(text_of(done).find("is not this rank"), std::string::npos) << text_of(done);
    });
    const auto caller = impostor.accept();
    const auto hello = hear<TcpHandshake::Hello>(caller);
    ASSERT_TRUE(hello);
    const auto start = Clock::now();
    say(caller, must(TcpHandshake::answer({}, *hello)).challenge());
    EXPECT_FALSE(hear<std::byte>(caller));
    waiter.join();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
    mesh[0].abandon();
}

// Breaks when a recorded handshake lets anybody in, or keeps the recorded rank out.
TEST(TcpStrangers, ARecordedHandshakeLetsNobodyIn) {
    Mesh mesh(Kind::tcp);
    const auto address = must(TcpAddress::parse(mesh.address(1)));
    auto handshake = must(TcpHandshake::call(address.secret, 0, 1));
    TcpHandshake::Response recorded;
    {
        const Looking looking(mesh[1]);
        const auto first = connected_to(address);
        say(first, handshake.hello());
        const auto challenge = hear<TcpHandshake::Challenge>(first);
        ASSERT_TRUE(challenge);
        ASSERT_TRUE(handshake.accepts(*challenge));
        recorded = handshake.response();
        for (int replay = 0; replay < 5; ++replay) {
            const auto again = connected_to(address);
            say(again, handshake.hello());
            const auto fresh = hear<TcpHandshake::Challenge>(again);
            ASSERT_TRUE(fresh);
            EXPECT_NE(fresh->nonce, challenge->nonce);
            say(again, recorded);
            EXPECT_FALSE(hear<TcpHandshake::Verdict>(again));
        }
    }
    expect_to_meet(mesh, 0, 1);
}

// Breaks when whoever has recorded a rank's hello can push that rank out with it.
TEST(TcpStrangers, AReplayedHelloPushesNobodyOut) {
    Mesh mesh(Kind::tcp);
    const auto address = must(TcpAddress::parse(mesh.address(1)));
    const Looking looking(mesh[1]);
    auto handshake = must(TcpHandshake::call(address.secret, 0, 1));
    const auto caller = connected_to(address);
    say(caller, handshake.hello());
    const auto challenge = hear<TcpHandshake::Challenge>(caller);
    ASSERT_TRUE(challenge);
    ASSERT_TRUE(handshake.accepts(*challenge));
    for (int replay = 0; replay < 5; ++replay) {
        const auto thief = connected_to(address);
        say(thief, handshake.hello());
        EXPECT_TRUE(hear<TcpHandshake::Challenge>(thief));
        EXPECT_FALSE(hear<TcpHandshake::Verdict>(thief));
    }
    say(caller, handshake.response());
    const auto verdict = hear<TcpHandshake::Verdict>(caller);
    ASSERT_TRUE(verdict);
    EXPECT_TRUE(handshake.word_of(*verdict));
}

// Breaks when more is read of a caller than the next part of the handshake.
TEST(TcpStrangers, WhoeverSaysMoreThanAskedIsDropped) {
    Mesh mesh(Kind::tcp);
    const auto address = must(TcpAddress::parse(mesh.address(1)));
    const Looking looking(mesh[1]);
    struct TooLong {
        TcpHandshake::Hello hello;
        std::array<std::byte, 100000> more{};
    };
    auto handshake = must(TcpHandshake::call(address.secret, 0, 1));
    auto too_long = std::make_unique<TooLong>();
    too_long->hello = handshake.hello();
    const auto loud = connected_to(address);
    (void)send(loud.number(), too_long.get(), sizeof *too_long, MSG_NOSIGNAL);
    EXPECT_FALSE(hear<TcpHandshake::Challenge>(loud));

    const auto later = connected_to(address);
    say(later, handshake.hello());
    const auto challenge = hear<TcpHandshake::Challenge>(later);
    ASSERT_TRUE(challenge);
    ASSERT_TRUE(handshake.accepts(*challenge));
    const std::array answers{handshake.response(), handshake.response()};
    say(later, answers);
    EXPECT_FALSE(hear<TcpHandshake::Verdict>(later));
}

// Breaks when a stranger may stay for ever by sending a byte now and then.
TEST(TcpStrangers, WhoeverIsSlowIsDropped) {
    Mesh mesh(Kind::tcp);
    const auto address = must(TcpAddress::parse(mesh.address(1)));
    const Looking looking(mesh[1]);
    const auto slow = connected_to(address);
    const auto start = Clock::now();
    bool dropped = false;
    while (!dropped && Clock::now() < start + std::chrono::seconds(30)) {
        (void)send(slow.number(), "x", 1, MSG_NOSIGNAL);
        pollfd event{slow.number(), POLLIN, 0};
        dropped = poll(&event, 1, 300) == 1;
    }
    EXPECT_TRUE(dropped);
}

void allow_many_descriptors() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// Breaks when strangers use up what a rank has for those who connect, or push out those who belong
// to the job, or stop a conversation that is under way.
TEST(TcpStrangers, ManyOfThemDoNotKeepRanksFromMeeting) {
    allow_many_descriptors();
    constexpr int size = 4;
    constexpr int strangers = 1000;
    Mesh mesh(Kind::tcp, size);
    expect_to_meet(mesh, 0, 1);
    const auto address = must(TcpAddress::parse(mesh.address(1)));
    std::atomic<bool> ended{false};
    std::thread crowd([&] {
        std::vector<FileDescriptor> sockets(strangers);
        TcpHandshake::Hello forged;
        forged.callee = 1;
        for (unsigned number = 0; !ended; ++number) {
            auto& socket = sockets[number % strangers];
            socket = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            const auto& endpoint = address.endpoints.front();
            if (connect(socket.number(), endpoint.generic(), endpoint.length()) != 0) continue;
            forged.caller = number % size;
            switch (number % 4) {
                case 0:  // half-open
                    break;
                case 1:
                    (void)send(socket.number(), noise(500, number).data(), 500, MSG_NOSIGNAL);
                    break;
                case 2:
                    (void)send(socket.number(), &forged, sizeof forged, MSG_NOSIGNAL);
                    break;
                default:
                    (void)send(socket.number(), &forged, 1, MSG_NOSIGNAL);
            }
            // The oldest of them go on, a byte at a time.
            const auto& old = sockets[(number + 1) % strangers];
            if (old) (void)send(old.number(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    });
    {
        const Looking looking(mesh[1]);
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    expect_to_meet(mesh, 2, 1);
    expect_to_meet(mesh, 1, 3);
    for (int round = 0; round < 20; ++round)
        expect_to_meet(mesh, 0, 1);
    // Where nobody accepts any more, the last stranger's connect() takes two minutes.
    const Looking looking(mesh[1]);
    ended = true;
    crowd.join();
}

void pump(const FileDescriptor& one, const FileDescriptor& other) {
    std::array<char, 4096> buffer{};
    std::array<pollfd, 2> events{{{one.number(), POLLIN, 0}, {other.number(), POLLIN, 0}}};
    while (poll(events.data(), events.size(), 20000) > 0) {
        for (std::size_t side = 0; side < 2; ++side) {
            if (events[side].revents == 0) continue;
            const auto count = recv(events[side].fd, buffer.data(), buffer.size(), 0);
            if (count <= 0) return;
            (void)send(events[1 - side].fd, buffer.data(), static_cast<std::size_t>(count),
                       MSG_NOSIGNAL);
        }
    }
}

// Breaks when a rank that is pushed out, before it was met or after its hello, never comes back.
TEST(TcpStrangers, AConnectionThatBreaksBeforeTheRanksHaveMetIsMadeAnew) {
    Mesh mesh(Kind::tcp);
    Impostor impostor(mesh);
    std::thread between([&] {
        for (const bool hears_hello : {false, true, true, false}) {
            const auto caller = impostor.accept();
            if (hears_hello) {
                EXPECT_TRUE(hear<TcpHandshake::Hello>(caller));
            }
            const linger at_once{1, 0};
            setsockopt(caller.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        const auto caller = impostor.accept();
        pump(caller, connected_to(impostor.real()));
    });
    expect_to_meet(mesh, 0, 1);
    mesh[0].abandon();
    between.join();
}

// Breaks when a rank that has no descriptor left for a while accepts nobody, or reaches nobody,
// after that.
TEST(TcpStrangers, RanksWithoutDescriptorsMeetLater) {
    for (const bool before_the_call : {true, false}) {
        Mesh mesh(Kind::tcp);
        const auto out = noise(8, 1);
        std::vector<std::byte> in(8);
        mpi_bridge::Request sent = 0;
        if (!before_the_call) sent = must(mesh[0].post_send(1, {}, out));
        rlimit before{};
        ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
        const int next = dup(0);
        close(next);
        rlimit none = before;
        none.rlim_cur = static_cast<rlim_t>(next);
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
        if (before_the_call) sent = must(mesh[0].post_send(1, {}, out));
        const auto end = Clock::now() + std::chrono::milliseconds(200);
        while (Clock::now() < end) {
            mesh[0].progress();
            mesh[1].progress();
        }
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
        const Looking looking(mesh[1]);
        EXPECT_EQ(text_of(mesh[0].wait(sent, soon())), "done");
        const auto receive = must(mesh[1].post_receive(0, {}, in));
        EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
        EXPECT_EQ(in, out);
    }
}

// Breaks when a rank gives up because too many wait to be accepted by the other at present.
TEST(TcpStrangers, ARankThatFindsAQueueFullComesBack) {
    Mesh mesh(Kind::on_host);
    auto address = must(TcpAddress::parse(mesh.address(1)));
    // A queue of one, of which the test takes a place, before the real listener.
    auto endpoint = must(TcpEndpoint::parse(TcpEndpoint::own_host));
    auto narrow = must(listen_at(endpoint));
    ASSERT_EQ(listen(narrow.number(), 0), 0);
    auto in_front = address;
    in_front.endpoints = {endpoint};
    const auto first = connected_to(in_front);
    mesh.address(1) = in_front.bytes();
    const auto out = noise(8, 1);
    const auto sent = must(mesh[0].post_send(1, {}, out));
    const Looking looking(mesh[1]);
    std::thread between([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        const FileDescriptor stranger(accept(narrow.number(), nullptr, nullptr));
        pollfd event{narrow.number(), POLLIN, 0};
        ASSERT_EQ(poll(&event, 1, 20000), 1);
        const FileDescriptor caller(accept(narrow.number(), nullptr, nullptr));
        pump(caller, connected_to(address));
    });
    EXPECT_EQ(text_of(mesh[0].wait(sent, soon())), "done");
    mesh[0].abandon();
    between.join();
}

}  // namespace

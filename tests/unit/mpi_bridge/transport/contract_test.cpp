// SPDX-License-Identifier: Apache-2.0
// What transport.hpp promises, of each transport there is.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "mesh.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Clock;
using mpi_bridge::Deadline;
using mpi_bridge::Done;
using mpi_bridge::Seconds;
using mpi_bridge::Tag;
using mpi_bridge::Transport;

class Contract : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Transports, Contract, testing::Values(Kind::tcp, Kind::on_host, Kind::ucx),
                         name_of);

constexpr std::size_t lengths[] = {0, 1, 8, 8175, 8176, 8177, 65536, 3000001};

// Sends `out` from rank 0 and receives it on rank 1, posting the receive before or after.
void send_one(Mesh& mesh, Tag tag, std::span<const std::byte> out, std::span<std::byte> in,
              bool receive_first) {
    mpi_bridge::Request receive = 0;
    if (receive_first) receive = must(mesh[1].post_receive(0, tag, in));
    const auto send = must(mesh[0].post_send(1, tag, out));
    std::thread sender([&] { EXPECT_EQ(text_of(mesh[0].wait(send, soon())), "done"); });
    if (!receive_first) {
        for (int looks = 0; looks < 100; ++looks)
            mesh[1].progress();
        receive = must(mesh[1].post_receive(0, tag, in));
    }
    EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
    sender.join();
}

// Breaks when a length is cut or padded, or bytes of one message land in the next.
TEST_P(Contract, MessagesOfAnyLengthArrive) {
    Mesh mesh(GetParam());
    unsigned number = 0;
    for (const bool receive_first : {true, false}) {
        for (const auto length : lengths) {
            const auto out = noise(length, number);
            std::vector<std::byte> in(length);
            send_one(mesh, {1, number, 0, 7}, out, in, receive_first);
            EXPECT_EQ(in, out) << length;
            ++number;
        }
    }
}

// Breaks when a message waits for another one that it may leave with, or is overtaken by it. The
// first round makes the connection.
TEST_P(Contract, AMessageSentAheadArrivesAloneAndBeforeTheNext) {
    Mesh mesh(GetParam());
    constexpr Tag tag{1, 1, 0, 7};
    const auto first = noise(100, 1);
    for (const bool another_follows : {true, false}) {
        const auto next = noise(3000001, 2);
        std::vector<std::byte> in(first.size());
        std::vector<std::byte> rest(next.size());
        std::vector sends{must(mesh[0].post_send_ahead(1, tag, first))};
        if (another_follows) sends.push_back(must(mesh[0].post_send(1, tag, next)));
        std::thread sender([&] {
            for (const auto send : sends)
                EXPECT_EQ(text_of(mesh[0].wait(send, soon())), "done");
        });
        const auto receive = must(mesh[1].post_receive(0, tag, in));
        EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
        EXPECT_EQ(in, first);
        if (another_follows) {
            const auto receive_next = must(mesh[1].post_receive(0, tag, rest));
            EXPECT_EQ(text_of(mesh[1].wait(receive_next, soon())), "done");
            EXPECT_EQ(rest, next);
        }
        sender.join();
    }
}

// Breaks when messages are matched by anything but peer, channel, sequence and step, or when equal
// ones change places.
TEST_P(Contract, MessagesAreMatchedByTagAndOrder) {
    Mesh mesh(GetParam(), 3);
    const Tag tags[] = {{1, 1, 0, 5}, {1, 1, 1, 5}, {1, 2, 0, 5}, {2, 1, 0, 5}, {1, 1, 0, 5}};
    std::vector<std::vector<std::byte>> out;
    std::vector<std::vector<std::byte>> in;
    std::vector<mpi_bridge::Request> sends[2];
    for (unsigned from = 0; from < 2; ++from) {
        for (const Tag& tag : tags) {
            const auto number = static_cast<unsigned>(out.size());
            out.push_back(noise(1000, number));
            (void)tag;
        }
    }
    for (int from = 0; from < 2; ++from) {
        for (std::size_t index = 0; index < 5; ++index)
            sends[from].push_back(must(mesh[from].post_send(
                2, tags[index], out[static_cast<std::size_t>(from) * 5 + index])));
    }
    std::thread senders[2];
    for (int from = 0; from < 2; ++from) {
        senders[from] = std::thread([&, from] {
            for (const auto send : sends[from])
                EXPECT_EQ(text_of(mesh[from].wait(send, soon())), "done");
        });
    }
    // In another order than sent, but for those with equal tags.
    const std::size_t order[] = {3, 2, 0, 1, 4};
    for (int from = 1; from >= 0; --from) {
        for (const auto index : order) {
            std::vector<std::byte> data(1000);
            const auto receive = must(mesh[2].post_receive(from, tags[index], data));
            EXPECT_EQ(text_of(mesh[2].wait(receive, soon())), "done");
            EXPECT_EQ(data, out[static_cast<std::size_t>(from) * 5 + index]) << from << index;
        }
    }
    for (auto& sender : senders)
        sender.join();
}

// Breaks when ranks that call different things get each other's data.
TEST_P(Contract, AnotherLengthOrAgreementIsAMismatch) {
    for (const bool receive_first : {true, false}) {
        for (const auto& [length, agreement] :
             {std::pair(90000U, 1U), {110000U, 1U}, {100000U, 2U}}) {
            Mesh mesh(GetParam());
            const auto out = noise(length, 1);
            std::vector<std::byte> in(100000);
            const auto post = [&] { return must(mesh[1].post_receive(0, {1, 1, 1, 1}, in)); };
            mpi_bridge::Request receive = 0;
            if (receive_first) receive = post();
            (void)must(mesh[0].post_send(1, {1, 1, 1, agreement}, out));
            std::atomic<bool> ended{false};
            std::thread mover([&] {
                while (!ended)
                    mesh[0].progress();
            });
            if (!receive_first) {
                for (int looks = 0; looks < 1000; ++looks)
                    mesh[1].progress();
                receive = post();
            }
            EXPECT_EQ(status_of(mesh[1].wait(receive, soon())), MPIB_ERROR_MISMATCH);
            ended = true;
            mover.join();
            mesh[0].abandon();
            mesh[1].abandon();
        }
    }
}

TEST_P(Contract, AWaitEndsAtItsDeadline) {
    Mesh mesh(GetParam());
    std::vector<std::byte> in(8);
    const auto receive = must(mesh[1].post_receive(0, {}, in));
    const auto start = Clock::now();
    EXPECT_EQ(status_of(mesh[1].wait(receive, Deadline::in(Seconds(0.05)))), MPIB_ERROR_TIMEOUT);
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(50));
    mesh[1].abandon();
}

// Breaks when threads take each other's messages, or one sleeps through its own.
TEST_P(Contract, ThreadsHaveChannelsOfTheirOwn) {
    constexpr unsigned threads = 4;
    constexpr unsigned rounds = 50;
    Mesh mesh(GetParam(), 3);
    std::atomic<int> wrong{0};
    const auto work = [&](int rank, unsigned channel) {
        std::vector<std::byte> in(20000);
        for (unsigned round = 0; round < rounds; ++round) {
            const std::size_t length = round % 5 == 4 ? 20000 : 64;
            const auto seed = [&](int of) { return static_cast<unsigned>(of) * 1000 + channel; };
            const auto out = noise(length, seed(rank) + round);
            const int left = (rank + 2) % 3;
            const Tag tag{channel, round, 0, 0};
            const auto receive =
                must(mesh[rank].post_receive(left, tag, std::span(in).first(length)));
            const auto send = must(mesh[rank].post_send((rank + 1) % 3, tag, out));
            if (!mesh[rank].wait(receive, soon()) || !mesh[rank].wait(send, soon())) ++wrong;
            const auto expected = noise(length, seed(left) + round);
            if (!std::equal(expected.begin(), expected.end(), in.begin())) ++wrong;
        }
    };
    std::vector<std::thread> all;
    for (int rank = 0; rank < 3; ++rank) {
        for (unsigned channel = 0; channel < threads; ++channel)
            all.emplace_back(work, rank, channel);
    }
    for (auto& thread : all)
        thread.join();
    EXPECT_EQ(wrong, 0);
}

TEST_P(Contract, AMessageOfTheCallEndsAwaitMessageAndIsLeftToBeReceived) {
    Mesh mesh(GetParam());
    const auto never = [] { return false; };
    using Arrival = Transport::Arrival;
    EXPECT_EQ(must(mesh[1].await_message(3, 4, never, Deadline::in(Seconds(0.01)))), Arrival::late);
    const auto out = noise(100, 1);
    (void)must(mesh[0].post_send(1, {3, 5, 1, 0}, out));  // of another call
    (void)must(mesh[0].post_send(1, {3, 4, 9, 0}, out));
    std::atomic<bool> ended{false};
    std::thread mover([&] {
        while (!ended)
            mesh[0].progress();
    });
    EXPECT_EQ(must(mesh[1].await_message(3, 4, never, soon())), Arrival::message);
    std::vector<std::byte> in(100);
    const auto receive = must(mesh[1].post_receive(0, {3, 4, 9, 0}, in));
    EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
    EXPECT_EQ(in, out);
    EXPECT_EQ(must(mesh[1].await_message(3, 4, never, Deadline::in(Seconds(0.01)))), Arrival::late);
    ended = true;
    mover.join();
}

TEST_P(Contract, WakeHasAwaitMessageAskAgain) {
    Mesh mesh(GetParam());
    std::atomic<bool> stop{false};
    std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        stop = true;
        mesh[1].wake();
    });
    const auto arrival = mesh[1].await_message(
        1, 1, [&] { return stop.load(); }, soon());
    EXPECT_EQ(must(arrival), Transport::Arrival::stopped);
    other.join();
}

// Connects ranks 0 and 1 of a mesh.
void greet(Mesh& mesh, int first, int second) {
    const auto out = noise(8, 1);
    std::vector<std::byte> in(8);
    const auto receive = must(mesh[second].post_receive(first, {}, in));
    const auto send = must(mesh[first].post_send(second, {}, out));
    std::thread sender([&] { EXPECT_EQ(text_of(mesh[first].wait(send, soon())), "done"); });
    EXPECT_EQ(text_of(mesh[second].wait(receive, soon())), "done");
    sender.join();
}

TEST_P(Contract, AReceiveFromARankThatIsGoneFailsWithItsName) {
    for (const bool orderly : {true, false}) {
        Mesh mesh(GetParam());
        greet(mesh, 0, 1);
        std::vector<std::byte> in(8);
        const auto receive = must(mesh[1].post_receive(0, {1, 2, 0, 0}, in));
        std::thread leaver(
            [&] { orderly ? mesh[0].close(Deadline::in(Seconds(2))) : mesh[0].abandon(); });
        const auto done = mesh[1].wait(receive, soon());
        leaver.join();
        EXPECT_EQ(status_of(done), MPIB_ERROR_PEER_LOST) << text_of(done);
        EXPECT_TRUE(text_of(done).starts_with("rank 0 (")) << text_of(done);
        mesh[1].abandon();
    }
}

// Rank 1 has sent rank 0 something of the call in which it waits for rank 2, which is idle: what
// the call needs from rank 2 may depend on rank 0. Breaks when only rank 2 is looked at; or when a
// rank that has done its part and leaves is taken for lost.
TEST_P(Contract, TheLossOfAnyRankOfTheCallEndsAWaitButItsLeavingDoesNot) {
    for (const bool orderly : {true, false}) {
        Mesh mesh(GetParam(), 3);
        greet(mesh, 0, 1);
        greet(mesh, 2, 1);
        const auto out = noise(8, 1);
        std::vector<std::byte> in(8);
        const auto send = must(mesh[1].post_send(0, {1, 2, 0, 0}, out));
        EXPECT_EQ(text_of(mesh[1].wait(send, soon())), "done");
        const auto receive = must(mesh[1].post_receive(2, {1, 2, 1, 0}, in));
        std::thread leaver(
            [&] { orderly ? mesh[0].close(Deadline::in(Seconds(2))) : mesh[0].abandon(); });
        const auto done = mesh[1].wait(receive, orderly ? Deadline::in(Seconds(1)) : soon());
        leaver.join();
        EXPECT_EQ(status_of(done), orderly ? MPIB_ERROR_TIMEOUT : MPIB_ERROR_PEER_LOST)
            << text_of(done);
        if (!orderly) {
            EXPECT_TRUE(text_of(done).starts_with("rank 0 (")) << text_of(done);
        }
        mesh[1].abandon();
    }
}

// Breaks when what a rank sent last is lost because it leaves.
TEST_P(Contract, CloseDeliversWhatWasSent) {
    Mesh mesh(GetParam());
    greet(mesh, 0, 1);
    const auto out = noise(3000000, 1);
    std::vector<std::byte> in(out.size());
    (void)must(mesh[0].post_send(1, {1, 2, 0, 0}, out));
    const auto receive = must(mesh[1].post_receive(0, {1, 2, 0, 0}, in));
    std::thread leaver([&] {
        mesh[0].close(soon());
        mesh.end(0);
    });
    EXPECT_EQ(text_of(mesh[1].wait(receive, soon())), "done");
    leaver.join();
    EXPECT_EQ(in, out);
}

// Breaks when memory is written to after abandon(), or a waiter is not let go.
TEST_P(Contract, AbandonEndsEverythingPosted) {
    Mesh mesh(GetParam());
    greet(mesh, 0, 1);
    std::vector<std::byte> in(100000);
    const auto out = noise(in.size(), 1);
    (void)must(mesh[1].post_receive(0, {1, 2, 0, 0}, in));
    mesh[1].abandon();
    if (auto send = mesh[0].post_send(1, {1, 2, 0, 0}, out)) {
        (void)mesh[0].wait(*send, Deadline::in(Seconds(0.2)));
    }
    EXPECT_EQ(in, std::vector<std::byte>(in.size()));
    EXPECT_FALSE(mesh[1].post_send(0, {}, out));
    EXPECT_FALSE(mesh[1].post_receive(0, {}, in));
    mesh[0].abandon();
}

// Breaks when the transport's library complains about messages that nobody received, which happens
// on stdout, in the middle of the program's own lines.
TEST_P(Contract, EndingSaysNothingOfMessagesThatNobodyReceived) {
    // A few looks have only a part of a message come.
    for (const auto& [orderly, looks] :
         {std::pair(true, 1000), {false, 1000}, {false, 1}, {false, 3}, {false, 10}, {false, 30}}) {
        testing::internal::CaptureStdout();
        {
            Mesh mesh(GetParam());
            greet(mesh, 0, 1);
            std::vector<std::vector<std::byte>> out;
            for (const auto length : lengths)
                out.push_back(noise(length, 1));
            for (unsigned number = 0; number < out.size(); ++number)
                (void)must(mesh[0].post_send(1, {1, 2 + number, 0, 0}, out[number]));
            for (int look = 0; look < looks; ++look) {
                mesh[0].progress();
                mesh[1].progress();
            }
            for (const int rank : {1, 0})
                orderly ? mesh[rank].close(Deadline::in(Seconds(0.5))) : mesh[rank].abandon();
        }
        EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << orderly << " " << looks;
    }
}

// Threads of rank 1 that wait for messages of rank 0 which never come, each in a call of its own.
class Waiters {
  public:
    Waiters(Mesh& mesh, unsigned threads) : in_(threads, std::vector<std::byte>(100000)) {
        outcomes_.resize(threads);
        for (unsigned number = 0; number < threads; ++number) {
            threads_.emplace_back([this, &mesh, number] {
                auto receive = mesh[1].post_receive(0, {number, 2, 0, 0}, in_[number]);
                ++posted_;
                outcomes_[number] = receive ? mesh[1].wait(*receive, soon())
                                            : tl::unexpected(std::move(receive).error());
                if (abandons_) mesh[1].abandon();
            });
        }
        while (posted_ < threads)
            std::this_thread::yield();
    }
    // Has whoever fails first break everything off, as the library does.
    void abandon_after_a_failure() { abandons_ = true; }
    std::vector<Done>& join() {
        for (auto& thread : threads_)
            thread.join();
        return outcomes_;
    }

  private:
    std::vector<std::vector<std::byte>> in_;
    std::vector<Done> outcomes_;
    std::atomic<unsigned> posted_{0};
    std::atomic<bool> abandons_{false};
    std::vector<std::thread> threads_;
};

// For waiters that have just begun, that look, and that sleep.
constexpr std::chrono::milliseconds pauses[] = {
    std::chrono::milliseconds(0), std::chrono::milliseconds(2), std::chrono::milliseconds(150)};
// Much more than leaving takes, and much less than the deadline of those who wait.
constexpr std::chrono::seconds soon_enough{8};

// Runs `body` with threads of rank 1 that wait for rank 0: one, four and eight, which have just
// begun to wait, look, or sleep after that pause. They all must leave soon.
void with_waiters(Kind kind,
                  const std::function<void(Mesh&, Waiters&, std::chrono::milliseconds)>& body) {
    for (const unsigned threads : {1U, 4U, 8U}) {
        for (const auto pause : pauses) {
            Mesh mesh(kind);
            greet(mesh, 0, 1);
            Waiters waiters(mesh, threads);
            const auto start = Clock::now();
            body(mesh, waiters, pause);
            EXPECT_LT(Clock::now() - start, soon_enough);
            mesh[0].abandon();
            mesh[1].abandon();
        }
    }
}

void expect_broken_off(const Done& outcome) {
    EXPECT_NE(status_of(outcome), MPIB_OK);
    EXPECT_NE(status_of(outcome), MPIB_ERROR_TIMEOUT) << text_of(outcome);
}

// Breaks when what waiting threads use is freed under them, or a sleeper is not woken.
TEST_P(Contract, AbandonLetsAllWaitingThreadsGo) {
    with_waiters(GetParam(), [](Mesh& mesh, Waiters& waiters, auto pause) {
        std::thread listener([&] {
            EXPECT_FALSE(mesh[1].await_message(
                100, 1, [] { return false; }, soon()));
        });
        std::this_thread::sleep_for(pause);
        mesh[1].abandon();
        for (const auto& outcome : waiters.join())
            expect_broken_off(outcome);
        listener.join();
    });
}

// Breaks when only one of several waiting threads hears of the loss.
TEST_P(Contract, AllWaitingThreadsHearOfALostPeer) {
    with_waiters(GetParam(), [](Mesh& mesh, Waiters& waiters, auto pause) {
        std::this_thread::sleep_for(pause);
        mesh[0].abandon();
        for (const auto& outcome : waiters.join()) {
            EXPECT_EQ(status_of(outcome), MPIB_ERROR_PEER_LOST) << text_of(outcome);
            EXPECT_TRUE(text_of(outcome).starts_with("rank 0 (")) << text_of(outcome);
        }
    });
}

TEST_P(Contract, TheFirstToHearOfALostPeerMayAbandonWhileOthersWait) {
    with_waiters(GetParam(), [](Mesh& mesh, Waiters& waiters, auto pause) {
        waiters.abandon_after_a_failure();
        std::this_thread::sleep_for(pause);
        mesh[0].abandon();
        bool lost = false;
        for (const auto& outcome : waiters.join()) {
            expect_broken_off(outcome);
            lost = lost || status_of(outcome) == MPIB_ERROR_PEER_LOST;
        }
        EXPECT_TRUE(lost);
    });
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    // Loopback for UCX too.
    setenv("UCX_TLS", "tcp,self", 1);
    setenv("UCX_NET_DEVICES", "lo", 1);
    return RUN_ALL_TESTS();
}

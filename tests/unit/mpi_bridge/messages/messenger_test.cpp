// SPDX-License-Identifier: Apache-2.0
// What mpi_bridge_messages.h promises, over each transport there is.
#include "messages/messenger.hpp"

#include <numeric>
#include <thread>
#include <vector>

#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Clock;
using mpi_bridge::Messenger;
using mpi_bridge::Seconds;

class Messages : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Transports, Messages, testing::Values(Kind::tcp, Kind::on_host, Kind::ucx),
                         name_of);

// Breaks when data is cut, or lands in another receive.
TEST_P(Messages, OfAnyLengthArriveInWhateverOrderTheSidesCome) {
    Ranks ranks(GetParam());
    for (const bool receive_first : {true, false}) {
        std::vector<std::vector<std::byte>> out;
        std::vector<std::vector<std::byte>> in;
        std::vector<Messenger::Id> sends;
        std::vector<Messenger::Id> receives;
        for (const std::size_t length : {0U, 1U, 1024U, 1025U, 9000U, 65536U, 65537U, 3000001U}) {
            out.push_back(noise(length, static_cast<unsigned>(length)));
            in.emplace_back(length);
        }
        const auto send = [&] {
            for (std::size_t at = 0; at < out.size(); ++at)
                sends.push_back(
                    must(ranks[0].send(1, "data", static_cast<std::int64_t>(at), out[at])));
        };
        const auto receive = [&] {
            for (std::size_t at = out.size(); at-- > 0;)
                receives.push_back(
                    must(ranks[1].receive(0, "data", static_cast<std::int64_t>(at), in[at])));
        };
        receive_first ? receive() : send();
        receive_first ? send() : receive();
        std::thread sender([&] {
            for (const auto id : sends)
                EXPECT_EQ(end_of(ranks[0], id), "done");
        });
        for (const auto id : receives)
            EXPECT_EQ(end_of(ranks[1], id), "done");
        sender.join();
        EXPECT_EQ(in, out);
    }
}

TEST_P(Messages, OfOneChannelAndTagKeepTheirOrder) {
    constexpr int count = 200;
    Ranks ranks(GetParam());
    std::vector<int> out(count);
    std::iota(out.begin(), out.end(), 0);
    std::vector<int> in(count, -1);
    std::vector<Messenger::Id> sends;
    for (int& each : out)
        sends.push_back(must(ranks[0].send(1, "", 7, std::as_bytes(std::span(&each, 1)))));
    for (int& each : in) {
        const auto id =
            must(ranks[1].receive(0, "", 7, std::as_writable_bytes(std::span(&each, 1))));
        EXPECT_EQ(end_of(ranks[1], id), "done");
    }
    EXPECT_EQ(in, out);
    for (const auto id : sends)
        EXPECT_EQ(end_of(ranks[0], id), "done");
}

TEST_P(Messages, OfAnyRankSayWhereTheyComeFrom) {
    Ranks ranks(GetParam(), 3);
    std::byte got{};
    const auto receive = must(ranks[0].receive(Messenger::any_rank, "", 0, {&got, 1}));
    EXPECT_EQ(ranks[0].peer(receive), Messenger::any_rank);
    const std::byte two{2};
    const auto send = must(ranks[2].send(0, "", 0, {&two, 1}));
    EXPECT_EQ(text_of(ranks[0].wait(receive, long_enough.count())), "done");
    EXPECT_EQ(ranks[0].peer(receive), 2);
    EXPECT_EQ(got, two);
    EXPECT_TRUE(ranks[0].release(receive));
    EXPECT_EQ(end_of(ranks[2], send), "done");
}

TEST_P(Messages, OfAnotherLengthFailOnBothSidesAndOthersGoOn) {
    Ranks ranks(GetParam());
    const auto out = noise(16, 1);
    std::vector<std::byte> in(8);
    const auto send = must(ranks[0].send(1, "a", 1, out));
    const auto receive = must(ranks[1].receive(0, "a", 1, in));
    EXPECT_EQ(end_of(ranks[0], send),
              "sending to rank 1 (channel \"a\", tag 1): it expected 8 bytes where 16 were sent");
    EXPECT_EQ(end_of(ranks[1], receive),
              "receiving from rank 0 (channel \"a\", tag 1): it sent 16 bytes where 8 were "
              "expected");
    EXPECT_EQ(in, std::vector<std::byte>(8));
    in.resize(16);
    const auto again = must(ranks[0].send(1, "a", 1, out));
    EXPECT_EQ(end_of(ranks[1], must(ranks[1].receive(0, "a", 1, in))), "done");
    EXPECT_EQ(end_of(ranks[0], again), "done");
    EXPECT_EQ(in, out);
}

// Breaks when a thread that waits is left asleep: because another one took its note, because the
// one that took the notes in has left, or because nobody waits and the messenger's thread does not
// begin.
TEST_P(Messages, OfSeveralThreadsEachWakeTheThreadThatWaits) {
    constexpr int threads = 4;
    constexpr int rounds = 60;
    Ranks ranks(GetParam());
    std::vector<std::thread> running;
    for (int thread = 0; thread < threads; ++thread) {
        for (const int rank : {0, 1}) {
            running.emplace_back([&ranks, thread, rank] {
                // Some lengths travel with the offer, and some do not.
                std::vector<std::byte> data(thread % 2 == 0 ? 8 : 5000);
                for (int round = 0; round < rounds; ++round) {
                    const bool sends = (round + rank) % 2 == 0;
                    if (sends) data.assign(data.size(), static_cast<std::byte>(round + thread));
                    const auto id = must(sends ? ranks[rank].send(1 - rank, "", thread, data)
                                               : ranks[rank].receive(1 - rank, "", thread, data));
                    if (round % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
                    EXPECT_EQ(end_of(ranks[rank], id), "done");
                    EXPECT_EQ(data.back(), static_cast<std::byte>(round + thread));
                }
            });
        }
    }
    for (auto& each : running)
        each.join();
}

TEST_P(Messages, CanBePolledUntilTheyAreDone) {
    Ranks ranks(GetParam());
    const auto out = noise(100000, 1);
    std::vector<std::byte> in(out.size());
    const auto send = must(ranks[0].send(1, "", 0, out));
    EXPECT_EQ(ranks[0].poll(send), false);
    EXPECT_EQ(status_of(ranks[0].wait(send, 0.01)), MPIB_ERROR_TIMEOUT);
    const auto receive = must(ranks[1].receive(0, "", 0, in));
    const auto deadline = soon();
    while (!(*ranks[0].poll(send) && *ranks[1].poll(receive)) && !deadline.passed())
        std::this_thread::yield();
    EXPECT_EQ(in, out);
    EXPECT_EQ(end_of(ranks[0], send), "done");
    EXPECT_EQ(end_of(ranks[1], receive), "done");
    EXPECT_EQ(ranks[1].poll(receive), std::nullopt);
}

// Breaks when a receive that nobody sends to keeps its memory after its release.
TEST_P(Messages, AreNotReceivedByAReceiveThatWasReleased) {
    Ranks ranks(GetParam());
    std::byte gone{};
    EXPECT_TRUE(ranks[1].release(must(ranks[1].receive(0, "", 0, {&gone, 1}))));
    const std::byte one{1};
    const auto send = must(ranks[0].send(1, "", 0, {&one, 1}));
    std::byte got{};
    EXPECT_EQ(end_of(ranks[1], must(ranks[1].receive(0, "", 0, {&got, 1}))), "done");
    EXPECT_EQ(end_of(ranks[0], send), "done");
    EXPECT_EQ(got, one);
    EXPECT_EQ(gone, std::byte{});
}

TEST_P(Messages, OfALostPeerFailWithItsNumber) {
    Ranks ranks(GetParam());
    std::byte first{};
    // The ranks know each other only once they have exchanged something.
    const auto hello = must(ranks[1].send(0, "", 0, {&first, 1}));
    EXPECT_EQ(end_of(ranks[0], must(ranks[0].receive(1, "", 0, {&first, 1}))), "done");
    EXPECT_EQ(end_of(ranks[1], hello), "done");
    const auto receive = must(ranks[0].receive(1, "", 1, {&first, 1}));
    ranks.transport(1).abandon();
    const auto done = ranks[0].wait(receive, long_enough.count());
    EXPECT_EQ(status_of(done), MPIB_ERROR_PEER_LOST);
    EXPECT_NE(text_of(done).find("rank 1"), std::string::npos) << text_of(done);
    EXPECT_TRUE(ranks[0].release(receive));
    EXPECT_TRUE(ranks.failure(0).failed());
    EXPECT_EQ(status_of(mpi_bridge::pass_on(ranks[0].send(1, "", 0, {}))), MPIB_ERROR_PEER_LOST);
}

TEST_P(Messages, OfAPeerThatHasLeftFailAlone) {
    Ranks ranks(GetParam());
    const std::byte out{1};
    std::byte in{};
    const auto last = must(ranks[1].send(0, "", 0, {&out, 1}));
    EXPECT_EQ(end_of(ranks[0], must(ranks[0].receive(1, "", 0, {&in, 1}))), "done");
    EXPECT_EQ(end_of(ranks[1], last), "done");
    const auto receive = must(ranks[0].receive(1, "", 1, {&in, 1}));
    ranks[1].shutdown({MPIB_ERROR_NOT_INITIALIZED, "left"});
    EXPECT_TRUE(ranks[1].ended(soon()));
    std::thread leaving([&] { ranks.transport(1).close(soon()); });
    const auto done = ranks[0].wait(receive, long_enough.count());
    EXPECT_EQ(status_of(done), MPIB_ERROR_PEER_LOST);
    EXPECT_NE(text_of(done).find("rank 1"), std::string::npos) << text_of(done);
    EXPECT_TRUE(ranks[0].release(receive));
    leaving.join();
}

TEST_P(Messages, ThatNobodyTakesAreTooLateAtTheTimeout) {
    Ranks ranks(GetParam(), 2, Seconds(0.05));
    const auto out = noise(not_carried, 1);
    const auto send = must(ranks[0].send(1, "", 3, out));
    const auto done = ranks[0].wait(send, 0);
    EXPECT_EQ(status_of(done), MPIB_ERROR_TIMEOUT);
    EXPECT_NE(text_of(done).find("rank 1 (tag 3, 65537 bytes)"), std::string::npos)
        << text_of(done);
    EXPECT_TRUE(ranks[0].release(send));
    std::vector<std::byte> in(not_carried);
    const auto never = must(ranks[0].receive(1, "", 4, in));
    EXPECT_EQ(status_of(ranks[0].wait(never, 0)), MPIB_ERROR_TIMEOUT);
    EXPECT_TRUE(ranks[0].release(never));
    ranks.set_timeout(mpi_bridge::no_limit);
    // Whoever takes it after all learns that, and other messages go on.
    const auto late = must(ranks[1].receive(0, "", 3, in));
    const auto told = ranks[1].wait(late, long_enough.count());
    EXPECT_EQ(status_of(told), MPIB_ERROR_TIMEOUT) << text_of(told);
    EXPECT_TRUE(ranks[1].release(late));
    const auto next = must(ranks[1].receive(0, "", 3, in));
    const auto again = must(ranks[0].send(1, "", 3, out));
    EXPECT_EQ(end_of(ranks[1], next), "done");
    EXPECT_EQ(end_of(ranks[0], again), "done");
    EXPECT_EQ(in, out);
    EXPECT_FALSE(ranks.failure(0).failed());
    EXPECT_FALSE(ranks.failure(1).failed());
}

// Breaks when a short message, whose data is here already, is received though its sender has given
// it up, or is mixed up with a later one.
TEST_P(Messages, ThatAreShortAndGivenUpAreNotReceived) {
    Ranks ranks(GetParam(), 2, Seconds(0.05));
    const std::byte old{1};
    const std::byte fresh{2};
    std::byte in{};
    const auto send = must(ranks[0].send(1, "", 3, {&old, 1}));
    EXPECT_EQ(status_of(ranks[0].wait(send, 0)), MPIB_ERROR_TIMEOUT);
    EXPECT_TRUE(ranks[0].release(send));
    ranks.set_timeout(mpi_bridge::no_limit);
    // Notes of one rank arrive in order, so the news is here by then.
    const auto hello = must(ranks[0].send(1, "", 0, {&fresh, 1}));
    EXPECT_EQ(end_of(ranks[1], must(ranks[1].receive(0, "", 0, {&in, 1}))), "done");
    EXPECT_EQ(end_of(ranks[0], hello), "done");
    const auto late = must(ranks[1].receive(0, "", 3, {&in, 1}));
    EXPECT_EQ(status_of(ranks[1].wait(late, long_enough.count())), MPIB_ERROR_TIMEOUT);
    EXPECT_TRUE(ranks[1].release(late));
    const auto again = must(ranks[0].send(1, "", 3, {&fresh, 1}));
    EXPECT_EQ(end_of(ranks[1], must(ranks[1].receive(0, "", 3, {&in, 1}))), "done");
    EXPECT_EQ(end_of(ranks[0], again), "done");
    EXPECT_EQ(in, fresh);
}

// Breaks when the time before anybody waits counts.
TEST_P(Messages, AreLateOnlyFromTheBeginningOfTheWait) {
    constexpr Seconds timeout{0.3};
    Ranks ranks(GetParam(), 2, timeout);
    std::byte in{};
    const auto receive = must(ranks[0].receive(1, "", 0, {&in, 1}));
    std::this_thread::sleep_for(timeout);
    const auto began = Clock::now();
    EXPECT_EQ(status_of(ranks[0].wait(receive, 0)), MPIB_ERROR_TIMEOUT);
    EXPECT_GE(Seconds(Clock::now() - began), timeout);
    EXPECT_TRUE(ranks[0].release(receive));
}

// A caller that looks for signals waits in short pieces.
TEST_P(Messages, AreTooLateInShortWaitsToo) {
    Ranks ranks(GetParam(), 2, Seconds(0.2));
    std::byte in{};
    const auto receive = must(ranks[0].receive(1, "", 0, {&in, 1}));
    const auto deadline = soon();
    while (ranks[0].poll(receive) == false && !deadline.passed())
        (void)ranks[0].wait(receive, 0.01);
    EXPECT_EQ(ranks[0].poll(receive), true);
    EXPECT_NE(text_of(ranks[0].wait(receive, 0)).find("did not send"), std::string::npos);
    EXPECT_TRUE(ranks[0].release(receive));
}

// Breaks when an offer that nobody stands behind any more is accepted.
TEST_P(Messages, OfferedByAPeerThatHasLeftAreNotReceived) {
    Ranks ranks(GetParam(), 3);
    const std::byte out{1};
    std::byte in{};
    const auto lost = noise(not_carried, 1);
    const auto stale = must(ranks[1].send(0, "", 5, lost));
    // Notes of one rank arrive in order, so the first offer is here by then.
    const auto hello = must(ranks[1].send(0, "", 0, {&out, 1}));
    EXPECT_EQ(end_of(ranks[0], must(ranks[0].receive(1, "", 0, {&in, 1}))), "done");
    EXPECT_EQ(end_of(ranks[1], hello), "done");
    ranks[1].shutdown({MPIB_ERROR_NOT_INITIALIZED, "left"});
    EXPECT_TRUE(ranks[1].ended(soon()));
    EXPECT_TRUE(ranks[1].release(stale));
    std::thread leaving([&] { ranks.transport(1).close(soon()); });
    // Whether rank 0 knows already that the other has left or not, only these messages fail.
    std::vector<std::byte> place(not_carried);
    const auto receive = must(ranks[0].receive(1, "", 5, place));
    EXPECT_EQ(status_of(ranks[0].wait(receive, long_enough.count())), MPIB_ERROR_PEER_LOST);
    EXPECT_TRUE(ranks[0].release(receive));
    leaving.join();
    const auto send = must(ranks[0].send(1, "", 6, {&out, 1}));
    EXPECT_EQ(status_of(ranks[0].wait(send, long_enough.count())), MPIB_ERROR_PEER_LOST);
    EXPECT_TRUE(ranks[0].release(send));
    const auto other = must(ranks[2].send(0, "", 7, {&out, 1}));
    EXPECT_EQ(end_of(ranks[0], must(ranks[0].receive(2, "", 7, {&in, 1}))), "done");
    EXPECT_EQ(end_of(ranks[2], other), "done");
    EXPECT_FALSE(ranks.failure(0).failed());
}

// Breaks when the messages of other ranks put off the look for those that have left.
TEST_P(Messages, OfAPeerThatHasLeftFailWhileOthersKeepComing) {
    Ranks ranks(GetParam(), 3);
    const std::byte out{1};
    std::byte in{};
    const auto hello = must(ranks[1].send(0, "", 0, {&out, 1}));
    EXPECT_EQ(end_of(ranks[0], must(ranks[0].receive(1, "", 0, {&in, 1}))), "done");
    EXPECT_EQ(end_of(ranks[1], hello), "done");
    std::byte never{};
    const auto receive = must(ranks[0].receive(1, "", 1, {&never, 1}));
    ranks[1].shutdown({MPIB_ERROR_NOT_INITIALIZED, "left"});
    EXPECT_TRUE(ranks[1].ended(soon()));
    std::thread leaving([&] { ranks.transport(1).close(soon()); });
    const auto deadline = soon();
    while (ranks[0].poll(receive) == false && !deadline.passed()) {
        const auto send = must(ranks[2].send(0, "", 2, {&out, 1}));
        EXPECT_EQ(end_of(ranks[0], must(ranks[0].receive(2, "", 2, {&in, 1}))), "done");
        EXPECT_EQ(end_of(ranks[2], send), "done");
    }
    EXPECT_EQ(ranks[0].poll(receive), true);
    EXPECT_EQ(status_of(ranks[0].wait(receive, 0)), MPIB_ERROR_PEER_LOST);
    EXPECT_TRUE(ranks[0].release(receive));
    leaving.join();
}

TEST_P(Messages, InFlightFailAtTheShutdown) {
    Ranks ranks(GetParam());
    std::byte in{};
    const auto receive = must(ranks[0].receive(1, "", 3, {&in, 1}));
    std::thread waiter(
        [&] { EXPECT_EQ(text_of(ranks[0].wait(receive, long_enough.count())), "over"); });
    ranks[0].shutdown({MPIB_ERROR_NOT_INITIALIZED, "over"});
    waiter.join();
    EXPECT_TRUE(ranks[0].ended(soon()));
    EXPECT_EQ(text_of(mpi_bridge::pass_on(ranks[0].send(1, "", 0, {}))), "over");
    EXPECT_TRUE(ranks[0].release(receive));
}

TEST_P(Messages, ToImpossibleRanksAreRefused) {
    Ranks ranks(GetParam());
    for (const int rank : {-2, -1, 0, 2})
        EXPECT_EQ(status_of(mpi_bridge::pass_on(ranks[0].send(rank, "", 0, {}))),
                  MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(status_of(mpi_bridge::pass_on(ranks[0].receive(0, "", 0, {}))),
              MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_FALSE(ranks[0].wait(1, 0));
    EXPECT_FALSE(ranks[0].release(1));
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// What mpi_bridge_messages.h promises while notes come in pieces, threads stop and ranks leave.
#include <chrono>
#include <thread>
#include <vector>

#include "messages/messenger.hpp"
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Deadline;
using mpi_bridge::Failure;
using mpi_bridge::Messenger;
using mpi_bridge::Note;
using mpi_bridge::Seconds;

// Many times Ranks' interval between looks for peers that have left.
constexpr std::chrono::milliseconds many_looks{200};

// Returns false if it does not become true in time.
template <typename Condition>
bool becomes(const Condition& condition) {
    const auto deadline = soon();
    while (!condition()) {
        if (deadline.passed()) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

class HinderedMessages : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Transports, HinderedMessages,
                         testing::Values(Kind::tcp, Kind::on_host, Kind::ucx), name_of);

// Makes the two ranks known to each other.
void greet(Ranks& ranks) {
    const std::byte out{1};
    std::byte in{};
    const auto hello = must(ranks[1].send(0, "hello", 0, {&out, 1}));
    EXPECT_EQ(end_of(ranks[0], must(ranks[0].receive(1, "hello", 0, {&in, 1}))), "done");
    EXPECT_EQ(end_of(ranks[1], hello), "done");
}

// Breaks when a rank that has left is taken to have left a message behind, while a thread here
// holds the note by which it took it.
TEST_P(HinderedMessages, AreDeliveredEvenIfTheReceiverHasLeftMeanwhile) {
    Ranks ranks(GetParam());
    greet(ranks);
    const std::byte out{7};
    std::byte in{};
    ranks.transport(0).hold_back_notes(true);
    const auto send = must(ranks[0].send(1, "", 0, {&out, 1}));
    std::string end;
    std::thread waiter([&] { end = end_of(ranks[0], send); });
    EXPECT_EQ(end_of(ranks[1], must(ranks[1].receive(0, "", 0, {&in, 1}))), "done");
    EXPECT_TRUE(becomes([&] { return ranks.transport(0).has_half_a_note(); }));
    ranks[1].shutdown({MPIB_ERROR_NOT_INITIALIZED, "left"});
    EXPECT_TRUE(ranks[1].ended(soon()));
    std::thread leaving([&] { ranks.transport(1).close(soon()); });
    EXPECT_TRUE(becomes([&] { return ranks.transport(0).is_gone(1); }));
    const auto begin = std::chrono::steady_clock::now();
    const int before = ranks.transport(0).looks();
    std::this_thread::sleep_for(many_looks);
    const int looks = ranks.transport(0).looks() - before;
    // It looks again soon, but it does not spin. The pause may have been longer than it should.
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - begin;
    EXPECT_LE(looks, 4 * passed.count());
    ranks.transport(0).hold_back_notes(false);
    waiter.join();
    leaving.join();
    EXPECT_EQ(end, "done");
    EXPECT_FALSE(ranks.failure(0).failed());
}

// Breaks when the beginning of a note that a thread has taken keeps finalize from its end.
TEST_P(HinderedMessages, EndThoughHalfANoteWasTaken) {
    Ranks ranks(GetParam());
    greet(ranks);
    const std::byte out{7};
    std::byte in{};
    ranks.transport(1).hold_back_notes(true);
    const auto send = must(ranks[0].send(1, "", 0, {&out, 1}));
    const auto receive = must(ranks[1].receive(0, "", 0, {&in, 1}));
    EXPECT_TRUE(becomes([&] {
        EXPECT_EQ(status_of(ranks[1].wait(receive, 0.01)), MPIB_ERROR_TIMEOUT);
        return ranks.transport(1).has_half_a_note();
    }));
    ranks[1].shutdown({MPIB_ERROR_NOT_INITIALIZED, "left"});
    // Meanwhile the messenger's thread ends.
    EXPECT_FALSE(ranks[1].ended(Deadline::in(Seconds(0.5))));
    ranks.transport(1).hold_back_notes(false);
    EXPECT_TRUE(ranks[1].ended(soon()));
    EXPECT_FALSE(ranks.failure(1).failed());
    EXPECT_TRUE(ranks[1].release(receive));
    (void)send;
}

// Breaks when a thread that has taken the beginning of a note waits for the rest only.
TEST_P(HinderedMessages, ReturnToAThreadThatHasTakenHalfANoteOfAnother) {
    Ranks ranks(GetParam());
    greet(ranks);
    const std::byte out{7};
    std::byte in{};
    const auto receive = must(ranks[1].receive(0, "never", 0, {&in, 1}));
    ranks.transport(1).hold_back_notes(true);
    const auto send = must(ranks[0].send(1, "", 0, {&out, 1}));
    std::string end;
    std::thread waiter([&] { end = text_of(ranks[1].wait(receive, 0)); });
    EXPECT_TRUE(becomes([&] { return ranks.transport(1).has_half_a_note(); }));
    ranks[1].shutdown({MPIB_ERROR_NOT_INITIALIZED, "over"});
    waiter.join();
    EXPECT_EQ(end, "over");
    ranks.transport(1).hold_back_notes(false);
    EXPECT_TRUE(ranks[1].release(receive));
    (void)send;
}

// Breaks when all threads that wait depend on one that a debugger, say, has stopped.
TEST_P(HinderedMessages, ArriveThoughTheThreadThatTakesTheNotesIsStopped) {
    Ranks ranks(GetParam());
    greet(ranks);
    std::byte first{};
    std::byte second{};
    const std::byte out{7};
    const auto never = must(ranks[1].receive(0, "never", 0, {&first, 1}));
    const auto wanted = must(ranks[1].receive(0, "", 0, {&second, 1}));
    std::thread stopped([&] {
        ranks.transport(1).stop(std::this_thread::get_id());
        EXPECT_EQ(end_of(ranks[1], never), "done");
    });
    EXPECT_TRUE(becomes([&] { return ranks.transport(1).has_stopped(); }));
    const auto send = must(ranks[0].send(1, "", 0, {&out, 1}));
    EXPECT_EQ(end_of(ranks[1], wanted), "done");
    EXPECT_EQ(second, out);
    EXPECT_EQ(end_of(ranks[0], send), "done");
    ranks.transport(1).stop({});
    const auto last = must(ranks[0].send(1, "never", 0, {&out, 1}));
    stopped.join();
    EXPECT_EQ(end_of(ranks[0], last), "done");
}

// Breaks when a note of another length leaves a request behind that is waited for again: the
// transport may have given its number to another operation.
TEST_P(HinderedMessages, FailTogetherAtANoteOfAnotherLength) {
    Ranks ranks(GetParam());
    greet(ranks);
    // So that a second thread takes the notes in after the failure of the first one.
    ranks.delay_news_of_failures(std::chrono::milliseconds(50));
    std::array<std::byte, 2> in{};
    std::vector<std::thread> waiting;
    for (const std::size_t number : {0U, 1U}) {
        const auto receive =
            must(ranks[1].receive(0, "never", static_cast<std::int64_t>(number), {&in[number], 1}));
        waiting.emplace_back([&, receive] {
            EXPECT_EQ(status_of(ranks[1].wait(receive, 0)), MPIB_ERROR_MISMATCH);
            EXPECT_EQ(status_of(ranks[1].wait(receive, 0)), MPIB_ERROR_MISMATCH);
            EXPECT_TRUE(ranks[1].release(receive));
        });
    }
    const auto other = noise(40, 1);
    const auto sent = must(ranks.transport(0).post_send(1, mpi_bridge::note_tag, other));
    EXPECT_TRUE(ranks.transport(0).wait(sent, soon()));
    for (auto& each : waiting)
        each.join();
    EXPECT_TRUE(ranks.failure(1).failed());
}

// Breaks when a rank has to keep everything that others send it before it receives.
TEST_P(HinderedMessages, CarryOnlySoMuchDataThatNobodyHasAskedFor) {
    constexpr int count = 200;
    Ranks ranks(GetParam());
    greet(ranks);
    for (const std::size_t length : {Note::room, Note::most_carried}) {
        const int carried = static_cast<int>(mpi_bridge::Protocol::most_carried_to_a_rank / length);
        const int with_data = ranks.transport(0).sent(Note::Kind::offer_with_data);
        const int without = ranks.transport(0).sent(Note::Kind::offer);
        for (int round = 0; round < 2; ++round) {
            std::vector<std::vector<std::byte>> out;
            std::vector<Messenger::Id> sends;
            for (int number = 0; number < count; ++number) {
                out.push_back(noise(length, static_cast<unsigned>(number + round)));
                sends.push_back(must(ranks[0].send(1, "", 0, out.back())));
            }
            // 64 KiB, in each round anew: what was received counts no more.
            EXPECT_EQ(ranks.transport(0).sent(Note::Kind::offer_with_data) - with_data,
                      carried * (round + 1));
            EXPECT_EQ(ranks.transport(0).sent(Note::Kind::offer) - without,
                      (count - carried) * (round + 1));
            std::thread sender([&] {
                for (const auto send : sends)
                    EXPECT_EQ(end_of(ranks[0], send), "done");
            });
            for (const auto& each : out) {
                std::vector<std::byte> in(each.size());
                EXPECT_EQ(end_of(ranks[1], must(ranks[1].receive(0, "", 0, in))), "done");
                EXPECT_EQ(in, each);
            }
            sender.join();
        }
    }
}

// Breaks when a message is taken for whole once its note is here, or when the rest of it is lost.
// Its receive has been posted before it comes.
TEST_P(HinderedMessages, AreWholeOnlyWithTheDataThatGoesToTheirReceive) {
    Ranks ranks(GetParam());
    greet(ranks);
    const auto out = noise(Note::most_carried, 1);
    std::vector<std::byte> in(out.size());
    ranks.transport(1).hold_back_data(true);
    const auto receive = must(ranks[1].receive(0, "", 0, in));
    const auto send = must(ranks[0].send(1, "", 0, out));
    EXPECT_TRUE(becomes([&] {
        EXPECT_EQ(status_of(ranks[1].wait(receive, 0.01)), MPIB_ERROR_TIMEOUT);
        return ranks.transport(1).has_waited_for_data();
    }));
    // The sender's memory is free, and the next message does not wait.
    EXPECT_EQ(end_of(ranks[0], send), "done");
    const std::byte last{7};
    std::byte got{};
    const auto next = must(ranks[0].send(1, "next", 0, {&last, 1}));
    EXPECT_EQ(end_of(ranks[1], must(ranks[1].receive(0, "next", 0, {&got, 1}))), "done");
    EXPECT_EQ(got, last);
    EXPECT_EQ(status_of(ranks[1].wait(receive, 0.1)), MPIB_ERROR_TIMEOUT);
    ranks.transport(1).hold_back_data(false);
    EXPECT_EQ(end_of(ranks[1], receive), "done");
    EXPECT_EQ(in, out);
    EXPECT_EQ(end_of(ranks[0], next), "done");
}

// The same of a message whose receive is posted while its data comes.
TEST_P(HinderedMessages, AreWholeOnlyWithTheDataBehindTheirNote) {
    Ranks ranks(GetParam());
    greet(ranks);
    const auto out = noise(Note::most_carried, 1);
    std::vector<std::byte> in(out.size());
    ranks.transport(1).hold_back_data(true);
    const auto send = must(ranks[0].send(1, "", 0, out));
    EXPECT_TRUE(becomes([&] { return ranks.transport(1).has_half_a_note(); }));
    const auto receive = must(ranks[1].receive(0, "", 0, in));
    EXPECT_EQ(status_of(ranks[1].wait(receive, 0.3)), MPIB_ERROR_TIMEOUT);
    // The next message waits behind it.
    const std::byte last{7};
    std::byte got{};
    const auto next = must(ranks[0].send(1, "next", 0, {&last, 1}));
    ranks.transport(1).hold_back_data(false);
    EXPECT_EQ(end_of(ranks[1], must(ranks[1].receive(0, "next", 0, {&got, 1}))), "done");
    EXPECT_EQ(got, last);
    EXPECT_EQ(end_of(ranks[1], receive), "done");
    EXPECT_EQ(in, out);
    EXPECT_EQ(end_of(ranks[0], send), "done");
    EXPECT_EQ(end_of(ranks[0], next), "done");
}

// Breaks when data that its sender has given up still counts.
TEST_P(HinderedMessages, CarryDataAgainOnceOthersWereGivenUp) {
    constexpr int count = 70;
    Ranks ranks(GetParam());
    greet(ranks);
    ranks.set_timeout(Seconds(0.02));
    const int before = ranks.transport(0).sent(Note::Kind::offer_with_data);
    const auto out = noise(Note::room, 1);
    std::vector<Messenger::Id> sends;
    for (int number = 0; number < count; ++number)
        sends.push_back(must(ranks[0].send(1, "", 0, out)));
    for (const auto send : sends) {
        EXPECT_EQ(status_of(ranks[0].wait(send, 0)), MPIB_ERROR_TIMEOUT);
        EXPECT_TRUE(ranks[0].release(send));
    }
    EXPECT_EQ(ranks.transport(0).sent(Note::Kind::offer_with_data) - before, 64);
    ranks.set_timeout(mpi_bridge::no_limit);
    const auto again = must(ranks[0].send(1, "", 1, out));
    EXPECT_EQ(ranks.transport(0).sent(Note::Kind::offer_with_data) - before, 65);
    std::vector<std::byte> in(out.size());
    EXPECT_EQ(end_of(ranks[1], must(ranks[1].receive(0, "", 1, in))), "done");
    EXPECT_EQ(end_of(ranks[0], again), "done");
    // Whoever asks for what was given up learns that, with data or without.
    for (int number = 0; number < count; ++number) {
        const auto late = must(ranks[1].receive(0, "", 0, in));
        EXPECT_EQ(status_of(ranks[1].wait(late, long_enough.count())), MPIB_ERROR_TIMEOUT);
        EXPECT_TRUE(ranks[1].release(late));
    }
}

}  // namespace

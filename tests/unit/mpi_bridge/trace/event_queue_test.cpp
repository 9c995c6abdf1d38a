// SPDX-License-Identifier: Apache-2.0
#include "trace/event_queue.hpp"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace mpi_bridge {
namespace {

Event mark(std::string_view text) {
    Event event;
    event.text = text;
    return event;
}

std::vector<std::string> texts(const EventQueue::Taken& taken) {
    std::vector<std::string> list;
    for_each_event(taken.events, [&](const Event& event) { list.emplace_back(event.text); });
    return list;
}

constexpr std::size_t room_for_four = 4 * (sizeof(Event) + 1);

TEST(EventQueue, HandsOverInOrderWithTimesThatDoNotGoBack) {
    EventQueue queue;
    queue.open(1 << 16);
    for (const char* text : {"a", "", "c"})
        queue.push(mark(text));
    const auto taken = queue.take(Clock::now());
    EXPECT_EQ(texts(taken), (std::vector<std::string>{"a", "", "c"}));
    Clock::time_point last;
    for_each_event(taken.events, [&](const Event& event) {
        EXPECT_GE(event.time, last);
        last = event.time;
    });
    EXPECT_FALSE(taken.closed);
    EXPECT_TRUE(queue.take(Clock::now()).events.empty());
}

TEST(EventQueue, CountsWhatDoesNotFitOnce) {
    EventQueue queue;
    queue.open(room_for_four);
    for (const char* text : {"1", "2", "3", "4", "5", "6"})
        queue.push(mark(text));
    const auto taken = queue.take(Clock::now());
    EXPECT_EQ(texts(taken), (std::vector<std::string>{"1", "2", "3", "4"}));
    EXPECT_EQ(taken.dropped, 2U);
    queue.push(mark("7"));
    const auto next = queue.take(Clock::now());
    EXPECT_EQ(texts(next), (std::vector<std::string>{"7"}));
    EXPECT_EQ(next.dropped, 0U);
}

TEST(EventQueue, IgnoresWhatComesWhileItIsClosed) {
    EventQueue queue;
    queue.push(mark("before"));
    queue.open(1 << 16);
    queue.push(mark("in"));
    queue.close();
    queue.push(mark("after"));
    const auto taken = queue.take(Clock::now() + std::chrono::hours(1));
    EXPECT_EQ(texts(taken), std::vector<std::string>{"in"});
    EXPECT_TRUE(taken.closed);
    queue.release();
    queue.push(mark("late"));
}

TEST(EventQueue, WakesItsReaderWhenHalfFullAndWhenClosed) {
    EventQueue queue;
    queue.open(room_for_four);
    std::vector<std::vector<std::string>> seen;
    std::thread reader([&] {
        for (bool closed = false; !closed;) {
            const auto taken = queue.take(Clock::now() + std::chrono::hours(1));
            seen.push_back(texts(taken));
            closed = taken.closed;
            if (!closed) queue.close();
        }
    });
    queue.push(mark("1"));
    queue.push(mark("2"));
    reader.join();
    EXPECT_EQ(seen, (std::vector<std::vector<std::string>>{{"1", "2"}, {}}));
}

TEST(EventQueue, KeepsDeviceTimesAndCutsEndlessNames) {
    EventQueue queue;
    queue.open(1 << 16);
    const std::string name(EventQueue::longest_text + 1, 'n');
    Event event = mark(name);
    event.type = EventType::device;
    event.time = Clock::time_point(std::chrono::nanoseconds(5));
    queue.push(event);
    for_each_event(queue.take(Clock::now()).events, [&](const Event& taken) {
        EXPECT_EQ(taken.time, event.time);
        EXPECT_EQ(taken.text.size(), EventQueue::longest_text);
    });
}

}  // namespace
}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "transport/tcp/inbox.hpp"

namespace {

using mpi_bridge::KeptMemory;
using mpi_bridge::TcpInbox;
using mpi_bridge::TcpOperation;

constexpr std::uint32_t key = 77;

struct Receive {
    explicit Receive(std::size_t bytes, std::uint32_t of = key) : memory(bytes, '.') {
        operation.receives = true;
        operation.key = of;
        operation.memory = reinterpret_cast<std::byte*>(memory.data());
        operation.bytes = bytes;
    }
    std::string memory;
    TcpOperation operation;
};

void land(TcpInbox& inbox, std::string_view text) {
    while (!text.empty()) {
        const auto place = inbox.landing();
        const auto count = std::min(place.size(), text.size());
        std::memcpy(place.data(), text.data(), count);
        inbox.landed(count);
        text.remove_prefix(count);
    }
}

TEST(TcpInbox, AMessageGoesStraightIntoAPostedReceive) {
    KeptMemory memory;
    TcpInbox inbox(memory);
    Receive receive(4);
    inbox.expect(receive.operation);
    inbox.begin({key, 9, 4});
    EXPECT_EQ(static_cast<void*>(inbox.landing().data()), receive.memory.data());
    land(inbox, "abcd");
    EXPECT_TRUE(receive.operation.done);
    EXPECT_EQ(receive.operation.received.agreement, 9U);
    EXPECT_EQ(receive.memory, "abcd");
    EXPECT_FALSE(inbox.expects());
}

// Breaks when the part that came before the receive was posted is lost, or counted for ever.
TEST(TcpInbox, AReceivePostedInTheMiddleOfAMessageGetsAllOfIt) {
    KeptMemory memory;
    TcpInbox inbox(memory);
    inbox.begin({key, 0, 6});
    land(inbox, "abc");
    EXPECT_EQ(inbox.kept_bytes(), 3U);
    EXPECT_TRUE(inbox.keeps(mpi_bridge::TcpKey::call(key)));
    Receive receive(6);
    inbox.expect(receive.operation);
    EXPECT_FALSE(receive.operation.done);
    EXPECT_TRUE(inbox.expects());
    EXPECT_EQ(inbox.kept_bytes(), 0U);
    land(inbox, "def");
    EXPECT_TRUE(receive.operation.done);
    EXPECT_EQ(receive.memory, "abcdef");
}

TEST(TcpInbox, KeptMessagesAreGivenAwayInTheOrderSent) {
    KeptMemory memory;
    TcpInbox inbox(memory);
    for (const char* text : {"one", "two"}) {
        inbox.begin({key, 0, 3});
        land(inbox, text);
    }
    Receive first(3);
    Receive second(3);
    inbox.expect(first.operation);
    inbox.expect(second.operation);
    EXPECT_EQ(first.memory + second.memory, "onetwo");
    EXPECT_EQ(inbox.kept_bytes(), 0U);
    EXPECT_FALSE(inbox.keeps(mpi_bridge::TcpKey::call(key)));
}

// Breaks when the stream is out of step after a message that nobody can take.
TEST(TcpInbox, AMessageOfAnotherLengthIsDroppedAndTheNextOneArrives) {
    for (const bool before : {true, false}) {
        KeptMemory memory;
        TcpInbox inbox(memory);
        Receive wrong(3);
        Receive right(2, key + 1);
        if (before) inbox.expect(wrong.operation);
        inbox.begin({key, 0, 200000});
        land(inbox, std::string(150000, 'x'));
        if (!before) inbox.expect(wrong.operation);
        EXPECT_TRUE(wrong.operation.done);
        EXPECT_EQ(wrong.operation.received.bytes, 200000U);
        land(inbox, std::string(50000, 'x'));
        EXPECT_TRUE(inbox.complete());
        inbox.expect(right.operation);
        inbox.begin({key + 1, 0, 2});
        land(inbox, "ok");
        EXPECT_EQ(right.memory, "ok");
        EXPECT_EQ(wrong.memory, "...");
    }
}

TEST(TcpInbox, AMessageWithoutBytesIsCompleteAtOnce) {
    KeptMemory memory;
    TcpInbox inbox(memory);
    Receive receive(0);
    inbox.begin({key, 0, 0});
    EXPECT_TRUE(inbox.complete());
    inbox.expect(receive.operation);
    EXPECT_TRUE(receive.operation.done);
}

TEST(TcpInbox, GivesBackTheMemoryOfEachMessage) {
    KeptMemory memory;
    TcpInbox inbox(memory);
    for (const std::size_t bytes : {0UL, 3UL, 100000UL}) {
        inbox.begin({key, 0, bytes});
        land(inbox, std::string(bytes, 'x'));
        EXPECT_EQ(memory.taken(), 1U);
        Receive receive(bytes);
        inbox.expect(receive.operation);
        EXPECT_TRUE(receive.operation.done);
        EXPECT_EQ(memory.taken(), 0U);
    }
    inbox.begin({key, 0, 3});
    inbox.clear();
    EXPECT_EQ(memory.taken(), 0U);
}

// Breaks when a step that runs ahead of its receives asks the system for new memory each time, or
// when the memory of the longest step stays for good.
TEST(KeptMemory, IsUsedAgainUpToALimit) {
    KeptMemory memory;
    auto piece = memory.take(100000);
    const auto* const where = piece.memory.get();
    memory.give_back(std::move(piece));
    piece = memory.take(50000);
    EXPECT_EQ(piece.memory.get(), where);
    EXPECT_EQ(piece.bytes, 100000U);
    memory.give_back(std::move(piece));
    piece = memory.take(200000);
    EXPECT_EQ(piece.bytes, 200000U) << "the spare piece is too short";
    memory.give_back(std::move(piece));

    constexpr std::size_t more_than_is_kept = 64UL << 20;
    memory.give_back(memory.take(more_than_is_kept));
    piece = memory.take(1UL << 20);
    EXPECT_EQ(piece.bytes, 1UL << 20) << "the longest piece was kept";
    memory.give_back(std::move(piece));
}

// Breaks when lengths are kept in 32 bits, or when the memory for a message is touched before
// anything of it is there.
TEST(TcpInbox, LengthsGoBeyond32Bits) {
    constexpr std::size_t bytes = (std::size_t{5} << 30) + 3;
    KeptMemory memory;
    TcpInbox inbox(memory);
    TcpOperation receive;
    auto* const somewhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    receive.key = key;
    receive.memory = somewhere;
    receive.bytes = bytes;
    inbox.expect(receive);
    inbox.begin({key, 0, bytes});
    EXPECT_EQ(inbox.landing().size(), bytes);
    inbox.landed(std::size_t{3} << 30);
    EXPECT_EQ(inbox.landing().data(), somewhere + (std::size_t{3} << 30));
    EXPECT_EQ(inbox.landing().size(), (std::size_t{2} << 30) + 3);
    EXPECT_FALSE(receive.done);
    inbox.landed((std::size_t{2} << 30) + 3);
    EXPECT_TRUE(receive.done);
}

}  // namespace

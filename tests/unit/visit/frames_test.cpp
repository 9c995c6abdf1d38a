// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/relay/frames.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::visit {
namespace {

using testing::IsEmpty;

std::vector<Frame> all_of(FrameReader& reader) {
    std::vector<Frame> frames;
    while (auto frame = reader.next())
        frames.push_back(std::move(*frame));
    return frames;
}

std::string some_frames() {
    std::string bytes;
    append_port(bytes, FrameType::open, 7, 65535);
    append(bytes, FrameType::data, 7, "a");
    append_credit(bytes, 7, 4000000000);
    append_state(bytes, 6006, PortState::foreign);
    append(bytes, FrameType::end, 0xFFFFFFFF);
    return bytes;
}

void expect_some_frames(const std::vector<Frame>& frames) {
    ASSERT_EQ(frames.size(), 5U);
    EXPECT_EQ(frames[0].channel, 7U);
    EXPECT_EQ(port_of(frames[0]), 65535);
    EXPECT_EQ(frames[1], (Frame{FrameType::data, 7, "a"}));
    EXPECT_EQ(credit_of(frames[2]), 4000000000U);
    EXPECT_EQ(port_of(frames[3]), 6006);
    EXPECT_EQ(state_of(frames[3]), PortState::foreign);
    EXPECT_EQ(frames[4], (Frame{FrameType::end, 0xFFFFFFFF, ""}));
}

TEST(Frames, AreReadAsTheyWereWritten) {
    FrameReader reader(FrameReader::Begin::at_once);
    reader.feed(some_frames());
    expect_some_frames(all_of(reader));
}

TEST(Frames, MayComeByteByByteAfterTheNoiseOfAProlog) {
    FrameReader reader(FrameReader::Begin::after_preamble);
    std::vector<Frame> frames;
    for (const char byte : "TaskProlog: hello\n" + std::string(preamble) + some_frames()) {
        reader.feed({&byte, 1});
        for (Frame& frame : all_of(reader))
            frames.push_back(std::move(frame));
    }
    expect_some_frames(frames);
    EXPECT_TRUE(reader.greeted());
    EXPECT_EQ(reader.fault(), "");
}

TEST(Frames, AreNotLookedForInEndlessNoise) {
    FrameReader reader(FrameReader::Begin::after_preamble);
    const std::string noise(1000, 'x');
    for (std::size_t fed = 0; fed < 2 * longest_noise; fed += noise.size())
        reader.feed(noise);
    EXPECT_NE(reader.fault(), "");
    reader.feed(std::string(preamble) + some_frames());
    EXPECT_THAT(all_of(reader), IsEmpty());
}

// A broken stream must not make this side keep more and more.
TEST(Frames, OfAWrongFormEndTheStream) {
    std::string too_long;
    append(too_long, FrameType::data, 1, std::string(longest_payload + 1, 'x'));
    std::string empty_data;
    append(empty_data, FrameType::data, 1);
    std::string short_port;
    append(short_port, FrameType::open, 1, "x");
    std::string no_state;
    append(no_state, FrameType::state, 0, "\x01\x02\x09");
    for (const std::string& bytes :
         {too_long.substr(0, 9), empty_data, short_port, no_state,
          std::string("\x63\0\0\0\0\0\0\0\0", 9), std::string(9, '\0')}) {
        FrameReader reader(FrameReader::Begin::at_once);
        reader.feed(bytes);
        EXPECT_THAT(all_of(reader), IsEmpty());
        EXPECT_NE(reader.fault(), "");
        reader.feed(some_frames());
        EXPECT_THAT(all_of(reader), IsEmpty());
    }
}

TEST(Frames, OfTheLongestFormAreTaken) {
    std::string bytes;
    append(bytes, FrameType::data, 1, std::string(longest_payload, 'x'));
    FrameReader reader(FrameReader::Begin::at_once);
    reader.feed(bytes + bytes);
    EXPECT_EQ(all_of(reader).size(), 2U);
}

}  // namespace
}  // namespace batchai::visit

// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "visit/tar/reader.hpp"
#include "visit/tar/writer.hpp"

namespace batchai::visit {
namespace {

struct Read {
    std::vector<TarEntry> entries;
    std::vector<std::string> contents;
    bool complete = false;
    std::string fault;
};

Read read(std::string_view stream, std::size_t step) {
    Read out;
    TarReader reader;
    while (!stream.empty()) {
        reader.feed(stream.substr(0, step));
        stream.remove_prefix(std::min(step, stream.size()));
        while (true) {
            const auto found = reader.next();
            if (!found) {
                out.fault = found.error().what;
                return out;
            }
            if (*found == TarReader::Found::nothing) break;
            if (*found == TarReader::Found::end) {
                out.complete = true;
                return out;
            }
            if (*found == TarReader::Found::entry) {
                out.entries.push_back(reader.entry());
                out.contents.emplace_back();
            } else {
                out.contents.back() += reader.contents();
            }
        }
    }
    return out;
}

std::string file(const std::string& name, const std::string& text) {
    return tar_header({.name = name, .kind = TarKind::file, .size = text.size(), .mode = 0640}) +
           text + tar_padding(text.size());
}

const std::string long_name = "top/" + std::string(300, 'n');

TEST(Tar, IsReadAsItWasWritten) {
    const std::string stream =
        tar_header({.name = "top", .kind = TarKind::directory, .size = 0, .mode = 0755}) +
        file("top/a", "hello") + file(long_name, std::string(512, 'x')) + file("top/empty", "") +
        tar_end();
    for (const std::size_t step : {1UL, 511UL, 100000UL}) {
        const Read all = read(stream, step);
        EXPECT_TRUE(all.complete) << all.fault;
        EXPECT_EQ(all.entries, (std::vector<TarEntry>{{"top", TarKind::directory, 0, 0755},
                                                      {"top/a", TarKind::file, 5, 0640},
                                                      {long_name, TarKind::file, 512, 0640},
                                                      {"top/empty", TarKind::file, 0, 0640}}));
        EXPECT_EQ(all.contents, (std::vector<std::string>{"", "hello", std::string(512, 'x'), ""}));
    }
}

TEST(Tar, HasSizesAboveEightGibibytes) {
    const std::uint64_t size = (std::uint64_t{1} << 33U) + 5;
    const Read all =
        read(tar_header({.name = "big", .kind = TarKind::file, .size = size, .mode = 0}), 512);
    ASSERT_EQ(all.entries.size(), 1U);
    EXPECT_EQ(all.entries[0].size, size);
}

TEST(Tar, HasNamesOfPax) {
    std::string header = tar_header({.name = "x", .kind = TarKind::file, .size = 20, .mode = 0});
    header[156] = 'x';
    unsigned int sum = 0;
    for (std::size_t i = 0; i < header.size(); ++i)
        sum += i >= 148 && i < 156 ? 32U : static_cast<unsigned char>(header[i]);
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%06o", sum);
    std::copy(text.begin(), text.end(), header.begin() + 148);
    const std::string line = "20 path=a name of it";
    const std::string stream =
        header + line.substr(0, 19) + "\n" + tar_padding(20) + file("short", "y") + tar_end();
    const Read all = read(stream, 512);
    ASSERT_EQ(all.entries.size(), 1U) << all.fault;
    EXPECT_EQ(all.entries[0].name, "a name of i");
}

TEST(Tar, WithAnotherChecksumIsRefused) {
    std::string stream = file("a", "x");
    stream[0] = 'b';
    EXPECT_THAT(read(stream, 512).fault, testing::HasSubstr("checksum"));
    EXPECT_THAT(read(std::string(512, 'z'), 512).fault, testing::HasSubstr("not a tar archive"));
}

TEST(Tar, IsNotCompleteWithoutItsEnd) {
    EXPECT_FALSE(read(file("a", "x"), 512).complete);
    EXPECT_FALSE(read(file("a", "x") + std::string(512, '\0'), 512).complete);
}

}  // namespace
}  // namespace batchai::visit

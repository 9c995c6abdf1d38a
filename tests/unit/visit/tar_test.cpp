// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tar_stream.hpp"
#include "visit/tar/reader.hpp"

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
    TarReader reader([&] {
        const std::string_view some = stream.substr(0, step);
        stream.remove_prefix(some.size());
        return some;
    });
    while (true) {
        const auto entry = reader.next();
        if (!entry) {
            out.fault = entry.error().what;
            return out;
        }
        if (!*entry) break;
        out.entries.push_back(**entry);
        std::string& text = out.contents.emplace_back();
        while (true) {
            const auto some = reader.contents();
            if (!some) {
                out.fault = some.error().what;
                return out;
            }
            if (!*some) break;
            text.resize(static_cast<std::size_t>((*some)->at), '\0');
            text += (*some)->bytes;
        }
        if (reader.is_cut_off()) break;
    }
    out.complete = !reader.is_cut_off();
    return out;
}

const std::string long_name = "top/" + std::string(300, 'n');

TEST(Tar, IsReadAsItWasWritten) {
    const std::string stream = directory("top") + file("top/a", "hello", 0640) +
                               file(long_name, std::string(512, 'x'), 0640) +
                               file("top/empty", "", 0640) + tar_end();
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
    const std::int64_t size = (std::int64_t{1} << 33U) + 5;
    const Read all =
        read(entry_of(archive_write_set_format_gnutar, "big", AE_IFREG, 0644, "x", size), 512);
    ASSERT_EQ(all.entries.size(), 1U) << all.fault;
    EXPECT_EQ(all.entries[0].size, static_cast<std::uint64_t>(size));
    EXPECT_FALSE(all.complete);
}

// Breaks when a name gets other bytes than it had, or none, on the way.
TEST(Tar, KeepsTheBytesOfOddNames) {
    const std::string decomposed = "u\u0308ber";
    for (const std::string& name : {std::string("größe"), decomposed, std::string("a\nb"),
                                    std::string("\xff\xfe"), long_name + "ü"}) {
        for (const auto format :
             {archive_write_set_format_gnutar, archive_write_set_format_pax_restricted}) {
            const Read all =
                read(entry_of(format, name, AE_IFREG, 0644, "text", 4) + tar_end(), 512);
            ASSERT_EQ(all.entries.size(), 1U) << name << all.fault;
            EXPECT_EQ(all.entries[0].name, name);
            EXPECT_TRUE(all.complete) << name;
        }
    }
}

TEST(Tar, WithAnotherChecksumIsRefused) {
    std::string stream = file("a", "x");
    stream[0] = 'b';
    EXPECT_THAT(read(stream, 512).fault, testing::HasSubstr("not a tar archive"));
    EXPECT_THAT(read(file("a", "x") + stream, 512).fault, testing::HasSubstr("not a tar archive"));
    EXPECT_THAT(read(std::string(512, 'z'), 512).fault, testing::HasSubstr("not a tar archive"));
}

TEST(Tar, IsNotCompleteWithoutItsEnd) {
    const std::string zeros = file("zeros", std::string(2048, '\0'));
    for (const std::string& stream :
         {std::string(), file("a", "x"), file("a", "x") + std::string(512, '\0'), zeros,
          zeros.substr(0, 1024), zeros.substr(0, 300)}) {
        const Read all = read(stream, 512);
        EXPECT_EQ(all.fault, "");
        EXPECT_FALSE(all.complete) << stream.size();
    }
    EXPECT_TRUE(read(zeros + tar_end(), 512).complete);
}

}  // namespace
}  // namespace batchai::visit

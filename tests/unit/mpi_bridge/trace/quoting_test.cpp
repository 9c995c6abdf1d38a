// SPDX-License-Identifier: Apache-2.0
#include "trace/quoting.hpp"

#include <gtest/gtest.h>
#include <jsoncons/json.hpp>

#include "core/utf8.hpp"

namespace mpi_bridge {
namespace {

std::string json(std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
}

TEST(Utf8, DecodesEachLength) {
    EXPECT_EQ(first_character("a")->code, U'a');
    EXPECT_EQ(first_character("\xC3\xBC")->code, U'ü');
    EXPECT_EQ(first_character("\xE2\x82\xAC")->code, U'€');
    EXPECT_EQ(first_character("\xF0\x9F\x98\x80")->code, U'\U0001F600');
    EXPECT_EQ(first_character("\xF0\x9F\x98\x80")->bytes, 4U);
}

TEST(Utf8, RefusesWhatIsNone) {
    for (const std::string_view bad :
         {"", "\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80",
          "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82z"}) {
        EXPECT_FALSE(first_character(bad)) << testing::PrintToString(std::string(bad));
    }
}

TEST(JsonString, EscapesWhatJsonAsksFor) {
    EXPECT_EQ(json("a\"b\\c"), R"("a\"b\\c")");
    EXPECT_EQ(json(std::string_view("\0\n\x1f\x7f", 4)), R"("\u0000\u000a\u001f\u007f")");
    EXPECT_EQ(json("gradü"), "\"gradü\"");
}

TEST(JsonString, ReplacesEachByteThatIsNotUtf8) {
    EXPECT_EQ(json("a\xFF\xC3z"), "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\"");
}

TEST(JsonString, OfAnyByteIsReadBack) {
    for (int first = 0; first < 256; ++first) {
        for (const int second : {0x61, 0x80, 0xBF, 0xC3, 0xFF}) {
            const char bytes[] = {static_cast<char>(first), static_cast<char>(second)};
            EXPECT_NO_THROW(jsoncons::json::parse(json({bytes, 2}))) << first << " " << second;
        }
    }
}

TEST(QuotedForPeople, CannotDisturbATerminal) {
    EXPECT_EQ(quoted_for_people("a\x1b[2Jb\nc\x7f"), "\"a?[2Jb?c?\"");
    EXPECT_EQ(quoted_for_people("a\xC2\x9B"), "\"a?\"");  // C1 control
    EXPECT_EQ(quoted_for_people("a\xE2\x80\xAE"
                                "b"),
              "\"a?b\"");  // right-to-left override
    EXPECT_EQ(quoted_for_people("a\xFF"), "\"a?\"");
}

TEST(QuotedForPeople, CutsLongNamesInTheMiddleBetweenCharacters) {
    EXPECT_EQ(quoted_for_people("0123456789", 10), "\"0123456789\"");
    EXPECT_EQ(quoted_for_people("0123456789a", 9), "\"012...89a\"");
    // Cut inside of ü on both sides.
    EXPECT_EQ(quoted_for_people("01\xC3\xBC"
                                "4567\xC3\xBC"
                                "ab",
                                9),
              "\"01...ab\"");
}

}  // namespace
}  // namespace mpi_bridge

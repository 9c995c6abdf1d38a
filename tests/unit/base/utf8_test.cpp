// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/utf8.hpp"

#include <gtest/gtest.h>

namespace batchai::base {

TEST(Utf8, EveryCodePointIsReadAsItWasWritten) {
    for (const char32_t code : {0x41U, 0xF6U, 0x65E5U, 0x1F600U, 0x10FFFFU}) {
        std::string text;
        utf8_append(text, code);
        EXPECT_EQ(utf8_sequence(text, 0), text.size());
        EXPECT_EQ(utf8_decode(text), code);
    }
}

// Breaks when what a program or another user has written acts on the terminal.
TEST(Utf8, APrintableTextActsOnNoTerminal) {
    EXPECT_EQ(printable("gr\u00f6\u00dfe \u65e5 1"), "gr\u00f6\u00dfe \u65e5 1");
    for (const std::string act : {"\x1b", "\a", "\r", "\x7f", "\xc2\x9b", "\xe2\x80\xae", "\xff"})
        EXPECT_EQ(printable("a" + act + "b"), "a\uFFFDb");
    EXPECT_EQ(printable_line("a\tb\r\nc\x1b[31m"), "a b  c\uFFFD[31m");
}

}  // namespace batchai::base

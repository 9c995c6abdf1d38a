// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>

#include <gtest/gtest.h>

#include "store/records.hpp"

namespace batchai::store {
namespace {

TEST(Names, LettersDigitsDashAndUnderscoreAreAllowed) {
    EXPECT_TRUE(check_name(kind<Job>, "Distributed_training-1"));
    EXPECT_TRUE(check_name(kind<Job>, std::string(64, 'a')));
    EXPECT_TRUE(check_name(kind<Group>, "my.group"));
}

TEST(Names, OnesThatLeaveTheDirectoryAreRefused) {
    for (const char* name : {"", ".", "..", "a/b", "../x", "/etc"})
        for (const Kind* const what : {&kind<Group>, &kind<Workspace>, &kind<Cluster>, &kind<Job>})
            EXPECT_FALSE(check_name(*what, name)) << name;
    EXPECT_FALSE(check_name(kind<Job>, "a.b"));
    EXPECT_FALSE(check_name(kind<Job>, std::string("a\0b", 3)));
    EXPECT_FALSE(check_name(kind<Job>, "a\nb"));
    EXPECT_FALSE(check_name(kind<Job>, std::string(65, 'a')));
}

TEST(Names, TheMessageSaysWhichCharacterIsWrong) {
    const auto checked = check_name(kind<Cluster>, "nc6 cluster");
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().exit_code, base::ExitCode::usage);
    EXPECT_EQ(checked.error().text(),
              "cluster name: \" \" at character 4 is not allowed\n"
              "hint: a cluster name has 1 to 64 letters, digits, \"-\" and \"_\"");
}

// Breaks when people are told of bytes where they have written characters.
TEST(Names, TheMessageShowsTheCharacterThatIsWrong) {
    const auto said = [](std::string_view name) {
        return check_name(kind<Job>, name).error().what;
    };
    EXPECT_EQ(said("größe"), "\"ö\" at character 3 is not allowed");
    EXPECT_EQ(said("日本"), "\"日\" at character 1 is not allowed");
    EXPECT_EQ(said("a\tb"), "U+0009 at character 2 is not allowed");
    EXPECT_EQ(said("a\u202eb"), "U+202E at character 2 is not allowed");
    EXPECT_EQ(said("a\xffo"), "byte 0xff at character 2 is not allowed");
}

}  // namespace
}  // namespace batchai::store

// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/enroot.hpp"

#include <gtest/gtest.h>

namespace batchai::image {
namespace {

using Words = std::vector<std::string>;

std::string script(const std::string& directory, const std::string& entrypoint) {
    return "# maintainer somebody\n\nmkdir -p \"" + directory + "\" 2> /dev/null\ncd \"" +
           directory +
           "\" && unset OLDPWD || exit 1\n\nif [ -s /etc/rc.local ]; then\n    . "
           "/etc/rc.local\nfi\n"
           "\nif [ $# -gt 0 ]; then\n    exec " +
           entrypoint + " \"$@\"\nelse\n    exec " + entrypoint + " 'bash'\nfi\n";
}

TEST(StartScript, GivesTheDirectoryAndTheEntryPoint) {
    const auto plain = read_start_script(script("/workspace", ""));
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->working_directory, "/workspace");
    EXPECT_EQ(plain->entrypoint, Words{});
    const auto with_words = read_start_script(script("/a b", R"('/opt/run' 'it'\''s' 'a  b' '')"));
    ASSERT_TRUE(with_words);
    EXPECT_EQ(with_words->working_directory, "/a b");
    EXPECT_EQ(with_words->entrypoint, (Words{"/opt/run", "it's", "a  b", ""}));
}

TEST(StartScript, ThatOnlyAShellCouldReadIsNotRead) {
    EXPECT_FALSE(read_start_script(""));
    EXPECT_FALSE(read_start_script("#!/bin/sh\nexec /sbin/openrc \"$@\"\n"));
    EXPECT_FALSE(read_start_script(script("/$HOME", "")));
    EXPECT_FALSE(read_start_script(script("/w", "$'a\\tb'")));
    EXPECT_FALSE(read_start_script(script("/w", "'open")));
    EXPECT_FALSE(read_start_script(script("/w", "'a'b")));
    EXPECT_FALSE(read_start_script(script("/w", "name")));
}

TEST(EnvironmentFile, OfEnrootHasValuesAsTheyAre) {
    EXPECT_EQ(
        read_environment_file("PATH=/opt/c/bin:/bin\nA=b=c d\n# no=comment\nEMPTY=\n\nQ=\"q\"\n"
                              "=x\nnonsense\n",
                              false),
        (Words{"PATH=/opt/c/bin:/bin", "A=b=c d", "EMPTY=", "Q=\"q\""}));
}

TEST(EnvironmentFile, OfADistributionMayHaveQuotes) {
    EXPECT_EQ(
        read_environment_file("PATH=\"/usr/bin:/bin\"\n export LANG='C'\nA=\"b\n#B=c\n", true),
        (Words{"PATH=/usr/bin:/bin", "LANG=C", "A=\"b"}));
}

}  // namespace
}  // namespace batchai::image

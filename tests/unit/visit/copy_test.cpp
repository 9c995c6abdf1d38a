// SPDX-License-Identifier: GPL-2.0-or-later
// The words of `job cp` and `job port`.
#include "visit/copy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process.hpp"
#include "visit/forward.hpp"

namespace batchai::visit {
namespace {

using testing::ElementsAre;

plan::Plan plan_with_a_model() {
    plan::Plan plan;
    plan.environment = {{"AZ_BATCHAI_OUTPUT_MODEL", "/mnt/model/"}};
    return plan;
}

TEST(CopySide, IsOneOfAJobIfItHasAColonBeforeAnySlash) {
    EXPECT_EQ(copy_side("train:/tmp/x"), (CopySide{"train", "/tmp/x"}));
    EXPECT_EQ(copy_side("train:"), (CopySide{"train", ""}));
    EXPECT_EQ(copy_side("./a:b"), (CopySide{{}, "./a:b"}));
    EXPECT_EQ(copy_side(":x"), (CopySide{{}, ":x"}));
    EXPECT_EQ(copy_side("x"), (CopySide{{}, "x"}));
}

TEST(NodePath, KeepsVariablesForTheNode) {
    const auto path = node_path("$AZ_BATCHAI_OUTPUT_MODEL/${AZ_BATCH_NODE_ID}.pt", {});
    ASSERT_TRUE(path);
    EXPECT_THAT(path->parts,
                ElementsAre("", "AZ_BATCHAI_OUTPUT_MODEL", "/", "AZ_BATCH_NODE_ID", ".pt"));
    EXPECT_EQ(path->name, "");
    const auto known = node_path("$AZ_BATCHAI_OUTPUT_MODEL", plan_with_a_model());
    ASSERT_TRUE(known);
    EXPECT_EQ(known->name, "model");
    EXPECT_EQ(known->expected, "/mnt/model");
}

// Breaks when the node can choose what the user gets: a copy named .bashrc, say.
TEST(NodePath, OnlyItsVariablesAreTheNodesToName) {
    const auto fits = [](const std::string& text, std::string_view name) {
        return may_be_named(*node_path(text, {}), name);
    };
    EXPECT_EQ(node_path("/tmp/$AZ_BATCH_NODE_ID/out.json", {})->name, "out.json");
    EXPECT_TRUE(fits("/tmp/$AZ_BATCH_NODE_ID/out.json", "out.json"));
    EXPECT_FALSE(fits("/tmp/$AZ_BATCH_NODE_ID/out.json", ".bashrc"));
    EXPECT_TRUE(fits("/tmp/of-$AZ_BATCH_NODE_ID.pt", "of-h1.pt"));
    EXPECT_TRUE(fits("/tmp/of-$AZ_BATCH_NODE_ID", "of-h1"));
    EXPECT_TRUE(fits("$AZ_BATCHAI_OUTPUT_MODEL", "model"));
    EXPECT_TRUE(fits("/tmp/.$AZ_BATCH_NODE_ID", ".h1"));
    for (const char* name : {"of-h1", "h1.pt", "of-.p", ".bashrc", "of-x/y.pt", "..", ""})
        EXPECT_FALSE(fits("/tmp/of-$AZ_BATCH_NODE_ID.pt", name)) << name;
    for (const char* name : {".bashrc", ".ssh", "..", ""})
        EXPECT_FALSE(fits("$AZ_BATCHAI_OUTPUT_MODEL", name)) << name;
}

// Whatever the text is, the shell gets it as one word.
TEST(NodePath, IsOneWordForTheShell) {
    for (const std::string text :
         {"/a b", "/$(touch x)", "/`id`", "/'", "/\"", "/*", "/$", "/${", "/a$5", "/-n", "/\\"}) {
        const auto path = node_path(text, {});
        ASSERT_TRUE(path) << text;
        base::Arguments words{"/bin/sh", "-c", shell_path(*path, 2) + "printf %s \"$p\"", "name",
                              "first"};
        const auto texts = texts_of(*path);
        words.insert(words.end(), texts.begin(), texts.end());
        EXPECT_EQ(base::run(words)->standard_output, text);
    }
    const auto variable = node_path("/a/$AZ_BATCHAI_X y/b", {});
    base::Arguments words{"/bin/sh", "-c", shell_path(*variable, 1) + "printf %s \"$p\"", "name"};
    const auto texts = texts_of(*variable);
    words.insert(words.end(), texts.begin(), texts.end());
    base::RunOptions options;
    options.environment = {"AZ_BATCHAI_X=$(id) *"};
    EXPECT_EQ(base::run(words, options)->standard_output, "/a/$(id) * y/b");
    options.environment = base::Environment{"PATH=/bin"};
    EXPECT_NE(base::run(words, options)->exit_code, 0) << "not set";
}

TEST(NodePath, MustNameSomething) {
    for (const std::string text :
         {"", "/", ".", "..", "/a/..", "/a/.", "/a\nb", "/a\1b", "$HOME/x", "a/b", "~/x"})
        EXPECT_FALSE(node_path(text, {})) << text;
    EXPECT_TRUE(node_path("/a/b//", {}));
}

TEST(PortWish, IsAPortOrTwo) {
    EXPECT_EQ(*port_wish("6006"), (PortWish{6006, true, 6006}));
    EXPECT_EQ(*port_wish("8888:6006"), (PortWish{8888, false, 6006}));
    EXPECT_EQ(*port_wish("0:6006"), (PortWish{0, false, 6006}));
    for (const char* text : {"", "0", "x", "65536", "1:2:3", "1:", ":1", "6006:0", "-1", "+1"})
        EXPECT_FALSE(port_wish(text)) << text;
}

TEST(PortWish, OfBatchAiNamesTheNodeItself) {
    EXPECT_EQ(*port_wish_of_address("9000:localhost:9001"), (PortWish{9000, false, 9001}));
    EXPECT_EQ(*port_wish_of_address("9000:::1:9001"), (PortWish{9000, false, 9001}));
    for (const char* text : {"9000:example.org:80", "9000:9001", "9000", "0:localhost:1",
                             "9000:localhost:x", "9000::9001"})
        EXPECT_FALSE(port_wish_of_address(text)) << text;
}

}  // namespace
}  // namespace batchai::visit

// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/yaml.hpp"

#include <string>

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "cli/output/output.hpp"

namespace batchai::cli {
namespace {

std::string yaml_of(std::string_view json) {
    return format_yaml(base::parse_json(json, "test").value());
}

TEST(Yaml, IsBlockStyleWithSortedKeysAndListsBelowTheirKeys) {
    EXPECT_EQ(yaml_of(R"({"b": [1, {"y": null, "x": [true]}, [2, 3]], "a": {"c": "text", "d": {}},
                         "e": []})"),
              "a:\n"
              "  c: text\n"
              "  d: {}\n"
              "b:\n"
              "- 1\n"
              "- x:\n"
              "  - true\n"
              "  'y': null\n"
              "- - 2\n"
              "  - 3\n"
              "e: []\n");
}

TEST(Yaml, MarksTheEndOfADocumentThatIsOneWord) {
    EXPECT_EQ(yaml_of("\"running\""), "running\n...\n");
    EXPECT_EQ(yaml_of("null"), "null\n...\n");
    EXPECT_EQ(yaml_of("\"\""), "''\n");
    EXPECT_EQ(yaml_of("[]"), "[]\n");
}

TEST(Yaml, QuotesWhatWouldBeSomethingElse) {
    for (const char* text : {"null", "True", "no",         "1",
                             "1.5",  "0x1F", "2018-06-21", "2018-06-21T17:15:18.288000+00:00",
                             "~",    "- a",  "a: b",       "a #b",
                             "*a",   "&a",   "[a",         "{a",
                             "%a",   "@a",   "`a",         "!a",
                             "|",    ">",    "'a",         " a",
                             "a ",   "a:",   "12:30",      ".5",
                             "+1",   "=",    "?"}) {
        const auto yaml = format_yaml(base::Value(text));
        EXPECT_EQ(yaml.front(), '\'') << text << " became " << yaml;
    }
    for (const char* text : {"running", "/subscriptions/0/resourceGroups/a", "a b", "STANDARD_NC6",
                             "$AZ_BATCHAI_JOB_MOUNT_ROOT/x", "it's", "a:b", "Zürich"})
        EXPECT_EQ(format_yaml(base::Value(text)), std::string(text) + "\n...\n");
}

// YAML 1.1 takes an exponent without a point for a text.
TEST(Yaml, WritesNumbersThatEveryReaderTakesForNumbers) {
    EXPECT_EQ(format_yaml(base::Value(1e-05)), "1.0e-05\n...\n");
    EXPECT_EQ(format_yaml(base::Value(1e20)), "1.0e+20\n...\n");
    EXPECT_EQ(format_yaml(base::Value(2.5e-7)), "2.5e-07\n...\n");
}

// What another reader of YAML makes of it.
TEST(Yaml, IsReadAsWhatWasWritten) {
    for (const std::string text : {"",
                                   "plain",
                                   "null",
                                   "true",
                                   "yes",
                                   "1",
                                   "1e3",
                                   "0o7",
                                   "a\nb",
                                   "a\n",
                                   "\ttab",
                                   "\x1b[31m",
                                   "it's \"quoted\"",
                                   "back\\slash",
                                   "a: b",
                                   "- a",
                                   "# a",
                                   "é\xC2\x85z",
                                   "\xE2\x80\xA8",
                                   "\xEF\xBB\xBF",
                                   "--- a",
                                   "---",
                                   "...",
                                   "a'",
                                   ": ",
                                   ":",
                                   "-",
                                   "? a",
                                   "!!str a",
                                   "x\x7f"}) {
        const auto read = YAML::Load(format_yaml(base::Value(text)));
        EXPECT_EQ(read.as<std::string>(), text) << format_yaml(base::Value(text));
        const auto in_object =
            YAML::Load(format_yaml(base::Value(base::Value::Object{{"key", text}, {"z", 1}})));
        EXPECT_EQ(in_object["key"].as<std::string>(), text);
        const auto as_key =
            YAML::Load(format_yaml(base::Value(base::Value::Object{{text, "value"}, {"zz", 1}})));
        EXPECT_EQ(as_key[text].as<std::string>(), "value") << text;
    }
}

}  // namespace
}  // namespace batchai::cli

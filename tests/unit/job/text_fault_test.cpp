// SPDX-License-Identifier: GPL-2.0-or-later
// Faults of the text itself, below the level of settings.
#include <string>

#include "fault_case.hpp"
#include "job_text.hpp"

namespace batchai::job::test {
namespace {

std::string nested(std::size_t depth) {
    return with_properties("\"$deep\": " + std::string(depth, '[') + std::string(depth, ']'));
}

std::string spelled(std::string_view key_and_value) {
    return with_properties("  " + std::string(key_and_value));
}

const FaultCase text_faults[] = {
    {"EmptyFile", "", 1, 1, 1, "E002",
     "the file is empty; a job file is an object: { \"properties\": { ... } }"},
    {"OnlyBlanks", " \n\t\r\n ", 1, 1, 1, "E002",
     "the file is empty; a job file is an object: { \"properties\": { ... } }"},
    {"ByteOrderMark", "\xEF\xBB\xBF" + spelled("\"$c\": 1"), 1, 1, 1, "E003",
     "the file starts with a byte order mark (BOM); save it as UTF-8 without BOM"},
    {"Utf16", std::string("\xFF\xFE{\0", 4), 1, 1, 1, "E004",
     "the file is not UTF-8 but UTF-16 or UTF-32; save it as UTF-8 without BOM"},
    {"BrokenUtf8", spelled("\"location\": null, \"$c\": \"a\xC3(b\""), 5, 29, 1, "E004",
     "the byte 0xC3 is not valid UTF-8 here; save the file as UTF-8"},
    {"LineComment", spelled("// why\n\"$c\": 1"), 5, 3, 6, "E005",
     "JSON has no comments; remove it, or keep the text as the value of a key such as "
     "\"$comment\""},
    {"BlockComment", spelled("\"$c\": /* one\n two */ 1"), 5, 9, 2, "E005",
     "JSON has no comments; remove it, or keep the text as the value of a key such as "
     "\"$comment\""},
    {"HashComment", spelled("# why\n\"$c\": 1"), 5, 3, 5, "E005",
     "JSON has no comments; remove it, or keep the text as the value of a key such as "
     "\"$comment\""},
    {"OpenComment", "{ /* {}", 1, 3, 2, "E005",
     "this comment is never closed, and JSON has no comments; remove it"},
    {"TrailingCommaInObject", spelled("\"$c\": 1 ,"), 5, 11, 1, "E006",
     "trailing comma before \"}\"; remove the comma"},
    {"TrailingCommaInArray", spelled("\"secrets\": [\n  {\"name\": \"T\", \"value\": \"v\"},\n]"),
     6, 30, 1, "E006", "trailing comma before \"]\"; remove the comma"},
    {"RawTab", spelled("\"$c\": \"a\tb\""), 5, 11, 1, "E007",
     "control character U+0009 in a string; write \\t"},
    {"RawNul", spelled(std::string_view("\"$c\": \"a\0b\"", 11)), 5, 11, 1, "E007",
     "control character U+0000 in a string; write \\u0000"},
    {"TooDeep", nested(63), 5, 72, 1, "E008",
     "objects and arrays are nested deeper than 64; a job file needs no more than 6 levels"},
    {"OpenString", spelled("\"$c\": \"abc\n"), 5, 9, 1, "E009",
     "this string is not closed before the end of the line; add the closing double quote; write a "
     "line break as \\n"},
    {"SingleQuotes", spelled("\"$c\": 'abc'"), 5, 9, 5, "E009",
     "a string is in single quotes; write it in plain double quotes (\")"},
    {"TypographicQuotes", spelled("\u201C$c\u201D: 1"), 5, 3, 4, "E009",
     "a string is in typographic quotes; write it in plain double quotes (\")"},
    {"KeyWithoutQuotes", spelled("$c: 1"), 5, 3, 2, "E009",
     "the key \"$c\" is not in quotes; write it in double quotes"},
    {"MissingComma", spelled("\"$c\": 1\n\"$d\": 2"), 5, 10, 1, "E009",
     "a comma is missing here; add \",\" after the value"},
    {"DoubledComma", spelled("\"$c\": 1,,\n\"$d\": 2"), 5, 11, 1, "E009",
     "there is nothing before this comma; remove it"},
    {"EqualsSign", spelled("\"$c\" = 1"), 5, 8, 1, "E009",
     "found \"=\" instead of a colon; write \":\""},
    {"MissingColon", spelled("\"$c\" 1"), 5, 7, 1, "E009",
     "a colon is missing after the key \"$c\"; write \"$c\": value"},
    {"MissingValue", spelled("\"$c\": ,\"$d\": 1"), 5, 3, 4, "E009", "the key \"$c\" has no value"},
    {"PythonTrue", spelled("\"$c\": True"), 5, 9, 4, "E009",
     "this is neither a string, a number, true, false nor null; write true"},
    {"BareText", spelled("\"$c\": hush"), 5, 9, 4, "E009",
     "this is neither a string, a number, true, false nor null; write text in double quotes"},
    {"LeadingZero", spelled("\"$c\": 0755"), 5, 9, 4, "E009",
     "this is not a valid JSON number; write digits only, without leading zeros, or put text in "
     "double "
     "quotes"},
    {"BadEscape", spelled("\"$c\": \"a\\d\""), 5, 11, 2, "E009",
     "\"\\d\" is not a JSON escape sequence; write \\\\ for a backslash"},
    {"LoneSurrogate", spelled("\"$c\": \"\\ud83d\""), 5, 10, 6, "E009",
     "this \\u escape is not a valid character; give four hexadecimal digits, and surrogates as a "
     "pair"},
    {"WrongBracket", "{\"$c\": [1}", 1, 10, 1, "E009",
     "\"}\" closes the array that opens on line 1, column 8; a \"]\" is missing"},
    {"EndInside", "{\n\"properties\": {", 2, 16, 1, "E009",
     "the file ends inside the object that opens on line 2, column 15; a \"}\" is missing"},
    {"TextBehind", spelled("\"$c\": 1") + "{}", 8, 1, 1, "E009",
     "unexpected \"{\" after the end of the job description; a job file holds one object; remove "
     "what follows it"},
    {"StrangeCharacter", "{ ? }", 1, 3, 1, "E009", "expected a key in double quotes, found \"?\""},
    {"DuplicateKey", spelled("\"$c\": 1,\n \"$c\": 2"), 6, 2, 4, "E010",
     "duplicate key \"$c\"; it was given first on line 5; remove one of the two"},
    {"DuplicateSetting", spelled("\"nodeCount\": 3"), 5, 3, 11, "E010",
     "duplicate key \"nodeCount\"; it was given first on line 3; remove one of the two"},
    {"TopLevelArray", "\n [1]", 2, 2, 1, "E011",
     "the file does not hold an object; a job file is an object: { \"properties\": { ... } }"},
    {"TopLevelString", "\"properties\"", 1, 1, 12, "E011",
     "the file does not hold an object; a job file is an object: { \"properties\": { ... } }"},
};

class TextFault : public testing::TestWithParam<FaultCase> {};

TEST_P(TextFault, IsNamedAtItsPlace) {
    expect_only_this_fault(GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, TextFault, testing::ValuesIn(text_faults), case_name);

TEST(NestingLimit, AcceptsSixtyFourLevels) {
    EXPECT_TRUE(parse(nested(62)).spec.has_value());
}

TEST(SizeLimit, RefusesMoreThanOneMebibyteWithoutReadingIt) {
    const std::string text = with_properties("\"$c\": 1") + std::string(maximum_file_size, ' ');
    const Parsed parsed = parse(text);
    ASSERT_EQ(parsed.diagnostics.size(), 1U);
    EXPECT_EQ(render_all(parsed.diagnostics, "job.json", text),
              "job.json: error: the file has " + std::to_string(text.size()) +
                  " bytes, more than 1048576; is this a job file? [E001]\n1 error\n");
}

TEST(SizeLimit, AcceptsExactlyOneMebibyte) {
    std::string text = with_properties("\"$c\": 1");
    text.resize(maximum_file_size, ' ');
    EXPECT_TRUE(parse(text).spec.has_value());
}

TEST(ManyFaults, AreListedUpToAHundredAndCounted) {
    std::string text = "{\"properties\": {";
    for (int i = 0; i < 150; ++i)
        text += "\"unknown" + std::to_string(i) + "\": 1, ";
    const Parsed parsed = parse(text + "\"$end\": 1}}");
    ASSERT_EQ(parsed.diagnostics.size(), 101U);
    EXPECT_EQ(parsed.diagnostics.back().code, "E028");
    EXPECT_EQ(parsed.diagnostics.back().message, "53 more faults are not listed");
}

}  // namespace
}  // namespace batchai::job::test

// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "job/parse.hpp"
#include "job/syntax/diagnostic.hpp"
#include "job/syntax/utf8.hpp"
#include "job_text.hpp"

namespace batchai::job::test {
namespace {

Diagnostic at(std::size_t line, std::size_t column, std::size_t length = 1) {
    return {Severity::error, "E012", {line, column, length}, "wrong", ""};
}

std::string shown(const Diagnostic& diagnostic, std::string_view source) {
    const std::string text = render(diagnostic, "job.json", source);
    return text.substr(text.find('\n') + 1);
}

TEST(Rendering, SaysPlaceMessageHintAndCodeAndShowsTheLine) {
    const std::string text = with_properties("    \"nodeCout\": 4");
    const Parsed parsed = parse(text);
    EXPECT_EQ(render_all(parsed.diagnostics, "job.json", text),
              "job.json:5:5: error: unknown key \"nodeCout\"; did you mean \"nodeCount\"? [E012]\n"
              "    \"nodeCout\": 4\n"
              "    ^~~~~~~~~~\n"
              "1 error\n");
}

TEST(Rendering, KeepsTabsSoThatTheCaretStandsRight) {
    EXPECT_EQ(shown(at(1, 4), "\ta\tb\r\n"), "\ta\tb\n\t \t^\n");
}

TEST(Rendering, CountsCharactersNotBytes) {
    EXPECT_EQ(shown(at(1, 3), "\u00e4\u20acx"), "\u00e4\u20acx\n  ^\n");
}

TEST(Rendering, LetsNoControlCharacterThrough) {
    EXPECT_EQ(shown(at(1, 5), "a\x1b[31m\x07\u202Ex\xff"),
              "a\uFFFD[31m\uFFFD\uFFFDx\uFFFD\n    ^\n");
    Diagnostic diagnostic = at(0, 0);
    diagnostic.message = "a\x1b[2J";
    EXPECT_EQ(render(diagnostic, "j\nob", ""), "j\uFFFDob: error: a\uFFFD[2J [E012]\n");
}

TEST(Rendering, CutsALongLineAroundTheCaret) {
    const std::string line = std::string(500, 'a') + "X" + std::string(500, 'b');
    const std::string text = shown(at(1, 501, 3), line);
    const std::size_t line_end = text.find('\n');
    EXPECT_LT(line_end, 120U);
    EXPECT_TRUE(text.starts_with("...aaa"));
    EXPECT_EQ(text.substr(line_end - 3, 3), "...");
    EXPECT_EQ(text[text.find('^') - line_end - 1], 'X') << "the caret stands below the X";
    EXPECT_EQ(text.substr(text.find('^')), "^~~\n");
}

TEST(Rendering, OfAPlaceBehindTheLastLineShowsNoLine) {
    EXPECT_EQ(shown(at(9, 1), "a\n"), "");
    EXPECT_EQ(shown(at(1, 9), "a\n"), "a\n ^\n");
}

TEST(Rendering, CountsErrorsAndWarnings) {
    Diagnostic warning = at(0, 0);
    warning.severity = Severity::warning;
    const std::string text = render_all({at(0, 0), at(0, 0), warning}, "f", "");
    EXPECT_TRUE(text.ends_with("\n2 errors, 1 warning\n"));
    EXPECT_EQ(render_all({}, "f", ""), "");
}

TEST(Rendering, ShowsNoSecretThatStandsOnTheFaultyLine) {
    const std::string text = with_properties(
        "\"secrets\": [{\"value\": \"hush\", \"colour\": 1}], "
        "\"environmentVariables\": [{\"value\": \"open\"}]");
    const std::string out = render_all(parse(text).diagnostics, "job.json", text);
    EXPECT_EQ(out.find("hush"), std::string::npos) << out;
    EXPECT_NE(out.find("\"****\""), std::string::npos) << out;
    EXPECT_NE(out.find("\"open\""), std::string::npos) << out;
}

TEST(Masking, KeepsLengthsAndPlaceholdersAndSurvivesBrokenFiles) {
    EXPECT_EQ(mask_secrets("{\"accountKey\": \"a\u00e4\\\"b\"}"), "{\"accountKey\": \"*****\"}");
    EXPECT_EQ(mask_secrets("{\"accountKey\":\n\"<AZURE_BATCHAI_STORAGE_KEY>\"}"),
              "{\"accountKey\":\n\"<AZURE_BATCHAI_STORAGE_KEY>\"}");
    EXPECT_EQ(mask_secrets("accountKey: abc, \"password\": 'x"),
              "accountKey: ***, \"password\": '*");
    EXPECT_EQ(mask_secrets("{\"name\": \"accountKey\", \"$c\": \"password\"}"),
              "{\"name\": \"accountKey\", \"$c\": \"password\"}");
}

TEST(Masking, HidesATokenInThePlaceOfAVariablesName) {
    EXPECT_EQ(mask_secrets(R"({"name": "A", "fromEnv": "hf_AbCdEf0123456789"})"),
              R"({"name": "A", "fromEnv": "*******************"})");
    for (const char* name : {"MY_TOKEN", "AWS_SECRET_ACCESS_KEY", "OTEL_EXPORTER_OTLP_ENDPOINT",
                             "http_proxy", "pytorch_cuda_alloc_conf", "RUN_2024_OF_ALICE_01"})
        EXPECT_FALSE(looks_like_secret(name)) << name;
    for (const char* token : {"glpat-x0123456789abcdef", "AKIAIOSFODNN7EXAMPLE",
                              "0123456789abcdef0123456789abcdef", "ghp_abcdefghijklmnop01"})
        EXPECT_TRUE(looks_like_secret(token)) << token;
}

TEST(DiagnosticsForMachines, AreAnArrayOfObjects) {
    Diagnostic diagnostic = at(3, 4, 5);
    diagnostic.hint = "do";
    const auto printed = base::parse_json(diagnostics_json({diagnostic}, "job.json"), "printed");
    const auto wanted = base::parse_json(R"([{"file": "job.json", "line": 3, "column": 4,
        "length": 5, "severity": "error", "code": "E012", "message": "wrong", "hint": "do"}])",
                                         "wanted");
    ASSERT_TRUE(printed && wanted);
    EXPECT_EQ(*printed, *wanted);
    EXPECT_EQ(diagnostics_json({}, "job.json"), "[]\n");
}

}  // namespace
}  // namespace batchai::job::test

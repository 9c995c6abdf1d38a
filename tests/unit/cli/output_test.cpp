// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/output.hpp"

#include <gtest/gtest.h>

#include "cli/output/query.hpp"

namespace batchai::cli {
namespace {

Value parsed(std::string_view text) {
    auto value = parse_json(text, "test");
    EXPECT_TRUE(value) << (value ? "" : value.error().text());
    return value ? *value : Value();
}

std::string rendered(const Value& value, OutputFormat format,
                     std::optional<std::string> query = {}) {
    auto text = render_output(value, {}, {format, std::move(query), false});
    return text ? *text : text.error().text();
}

TEST(Json, SortsKeysIndentsByTwoAndKeepsNonAscii) {
    const auto value = parsed(R"({"b":[1,2.5,true,null,{}],"a":{"z":"Zürich","list":[]}})");
    EXPECT_EQ(format_json(value, base::KeyOrder::sorted), R"({
  "a": {
    "list": [],
    "z": "Zürich"
  },
  "b": [
    1,
    2.5,
    true,
    null,
    {}
  ]
}
)");
}

TEST(Json, EscapesWhatJsonAndATerminalMustNotSeeRaw) {
    EXPECT_EQ(format_json(Value("a\"b\\c\n\x1b[31m\x7f")),
              "\"a\\\"b\\\\c\\n\\u001b[31m\\u007f\"\n");
    EXPECT_EQ(format_json(Value("\xC2\x9b"
                                "31m \xC2\xA0 \xC3\x9b")),
              "\"\\u009b31m \xC2\xA0 \xC3\x9b\"\n");
}

TEST(Json, WholeNumbersThatAreRealKeepTheirPoint) {
    EXPECT_EQ(format_json(Value(50000.0)), "50000.0\n");
    EXPECT_EQ(format_json(Value(std::int64_t{50000})), "50000\n");
}

TEST(Json, ColoursOnlyWhenAsked) {
    const auto value = parsed(R"({"a":"b"})");
    EXPECT_EQ(format_json(value, base::KeyOrder::sorted, Colour::off).find('\x1b'),
              std::string::npos);
    EXPECT_NE(format_json(value, base::KeyOrder::sorted, Colour::on).find("\x1b["),
              std::string::npos);
}

// The tutorial's sample, its data row with the blanks that the dashes demand (the documentation
// lost one there).
TEST(TableText, MatchesTheTutorialsClusterTable) {
    const Table table{{"Name", "Resource Group", "Workspace", "VM Size", "State", "Idle", "Running",
                       "Preparing", "Leaving", "Unusable"},
                      {{"nc6cluster", "batchai.horovod", "batchaidev", "STANDARD_NC6", "steady",
                        "4", "0", "0", "0", "0"}}};
    EXPECT_EQ(
        format_table(table),
        "Name        Resource Group    Workspace    VM Size       State      Idle    Running    "
        "Preparing    Leaving    Unusable\n"
        "----------  ----------------  -----------  ------------  -------  ------  ---------  "
        "-----------  ---------  ----------\n"
        "nc6cluster  batchai.horovod   batchaidev   STANDARD_NC6  steady        4          0      "
        "      0          0           0\n");
}

TEST(TableText, MatchesTheTutorialsFileTable) {
    const Table table{{"Name", "Type", "Size", "Modified"},
                      {{"execution-tvm-676767296_1-20180718t174802z-p.log", "file", "8801",
                        "2018-07-18T22:41:28+00:00"},
                       {"stderr-job_prep-tvm-676767296_1-20180718t174802z-p.txt", "file", "238",
                        "2018-07-18T22:41:50+00:00"},
                       {"stdout.txt", "file", "2316480", "2018-07-18T22:46:32+00:00"}}};
    EXPECT_EQ(format_table(table),
              "Name                                                    Type       Size  Modified\n"
              "------------------------------------------------------  ------  -------  "
              "-------------------------\n"
              "execution-tvm-676767296_1-20180718t174802z-p.log        file       8801  "
              "2018-07-18T22:41:28+00:00\n"
              "stderr-job_prep-tvm-676767296_1-20180718t174802z-p.txt  file        238  "
              "2018-07-18T22:41:50+00:00\n"
              "stdout.txt                                              file    2316480  "
              "2018-07-18T22:46:32+00:00\n");
}

TEST(TableText, ABlankCellKeepsAColumnOfNumbersToTheRight) {
    EXPECT_EQ(format_table({{"Name", "Size"}, {{"a", "12345678"}, {"b", ""}}}),
              "Name        Size\n------  --------\na       12345678\nb\n");
}

TEST(TableText, OneWordInAColumnOfNumbersAlignsItToTheLeft) {
    EXPECT_EQ(format_table({{"X", "Y"}, {{"1", "a"}, {"none", "b"}}}),
              "X     Y\n----  ---\n1     a\nnone  b\n");
}

TEST(TableText, WidthCountsCharactersNotBytes) {
    EXPECT_EQ(format_table({{"N", "M"}, {{"äöüß", "x"}, {"abcd", "y"}}}),
              "N     M\n----  ---\näöüß  x\nabcd  y\n");
}

TEST(GenericTable, SortsKeysCapitalisesAndSkipsNestedAndNull) {
    const auto value = parsed(
        R"({"name":"n","id":"/x","type":"t","etag":"e","b":null,"list":[1],"location":"here"})");
    EXPECT_EQ(rendered(value, OutputFormat::table),
              "Location    Name\n----------  ------\nhere        n\n");
}

TEST(GenericTable, AQueryKeepsItsOwnOrder) {
    const auto value = parsed(R"([{"name":"a","n":1,"z":2},{"name":"b","n":3,"z":4}])");
    EXPECT_EQ(rendered(value, OutputFormat::table, "[].{zed: z, alpha: name}"),
              "  Zed  Alpha\n-----  -------\n    2  a\n    4  b\n");
}

TEST(GenericTable, NamesScalarsResultAndInnerListsByNumber) {
    EXPECT_EQ(rendered(parsed(R"(["x","y"])"), OutputFormat::table), "Result\n--------\nx\ny\n");
    EXPECT_EQ(rendered(parsed(R"([["a",1],["b",2]])"), OutputFormat::table),
              "Column1      Column2\n---------  ---------\na                  1\nb           "
              "       2\n");
}

TEST(GenericTable, NothingGivesNoText) {
    EXPECT_EQ(rendered(Value(), OutputFormat::table), "");
    EXPECT_EQ(rendered(parsed("[]"), OutputFormat::table), "");
}

TEST(Tsv, OrdersByKeyAndShowsNestedShapes) {
    const auto value = parsed(R"([{"b":"x\ty","a":true,"c":[1,2],"d":{"e":1},"f":null}])");
    EXPECT_EQ(rendered(value, OutputFormat::tsv), "True\tx\\ty\t2\t\tNone\n");
}

TEST(Tsv, AScalarIsItself) {
    EXPECT_EQ(rendered(Value("running"), OutputFormat::tsv), "running\n");
    EXPECT_EQ(rendered(Value(true), OutputFormat::tsv), "true\n");
    EXPECT_EQ(rendered(Value(), OutputFormat::tsv), "");
}

TEST(Query, PicksAMemberAndPrintsItAsJson) {
    const auto value = parsed(R"({"executionState":"running","n":{"idle":0,"running":4}})");
    EXPECT_EQ(rendered(value, OutputFormat::json, "executionState"), "\"running\"\n");
    EXPECT_EQ(rendered(value, OutputFormat::json, "n"), "{\n  \"idle\": 0,\n  \"running\": 4\n}\n");
    EXPECT_EQ(rendered(value, OutputFormat::json, "absent"), "null\n");
}

TEST(Query, FiltersAndFunctionsWork) {
    const auto value = parsed(R"([{"name":"a","s":"failed"},{"name":"b","s":"queued"}])");
    EXPECT_EQ(rendered(value, OutputFormat::tsv, "[?s=='failed'].name"), "a\n");
    EXPECT_EQ(rendered(value, OutputFormat::json, "length(@)"), "2\n");
}

// As the Azure CLI does.
TEST(Query, ALiteralThatIsNotJsonIsAString) {
    const auto value =
        parsed(R"([{"name":"a `b","s":"failed","n":4},{"name":"b","s":"queued","n":5}])");
    for (const auto* filter :
         {"[?s==`failed`].n", "[?s==` failed`].n", "[?s==`\"failed\"`].n",
          "[?contains(s, `fail`)].n", "[?n==`4`].n", R"([?name=='a `b' && n<`5`].n)"})
        EXPECT_EQ(rendered(value, OutputFormat::tsv, filter), "4\n") << filter;
    EXPECT_FALSE(query(value, "[?s==`fail\"ed`]"));
    EXPECT_FALSE(query(value, "[?s==`failed"));
    EXPECT_FALSE(query(value, "`"));
}

TEST(Query, ABadExpressionIsOneMessageWithACaretUnderThePlace) {
    const auto answer = query(Value(), "[?name == 'a'");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().exit_code, base::ExitCode::usage);
    EXPECT_EQ(answer.error().where, "--query");
    const auto& what = answer.error().what;
    EXPECT_NE(what.find("\n  [?name == 'a'\n  "), std::string::npos) << what;
    EXPECT_EQ(what.back(), '^') << what;
}

TEST(Query, AWrongArgumentTypeIsAnErrorNotANull) {
    const auto answer = query(parsed(R"({"a":1})"), "length(a)");
    ASSERT_FALSE(answer);
    // The command has been carried out by then, so a script must not take it for a wrong call.
    EXPECT_EQ(answer.error().exit_code, base::ExitCode::failed);
    EXPECT_NE(answer.error().text().find("has been carried out"), std::string::npos);
}

TEST(OutputFormatName, IsReadWithoutRegardToCase) {
    EXPECT_EQ(output_format("Table").value(), OutputFormat::table);
    EXPECT_EQ(output_format("xml").error().exit_code, base::ExitCode::usage);
    EXPECT_EQ(output_format("YAML").value(), OutputFormat::yaml);
    EXPECT_EQ(output_format("yamlc").value(), OutputFormat::yaml);
}

// Breaks when the name of somebody else's file acts on the terminal.
TEST(Text, OfTablesAndTsvHasNoControlCharacters) {
    const Value value(Value::Array{Value(Value::Object{{"name",
                                                        "a\x1b[31m\xC2\x9b"
                                                        "b\n\x7f"}})});
    EXPECT_EQ(rendered(value, OutputFormat::tsv), "a\\x1b[31m\\x9bb\\n\\x7f\n");
    EXPECT_EQ(rendered(value, OutputFormat::table).find_first_of("\x1b\x7f\x9b"),
              std::string::npos);
}

}  // namespace
}  // namespace batchai::cli

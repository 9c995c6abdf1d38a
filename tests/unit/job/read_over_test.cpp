// SPDX-License-Identifier: GPL-2.0-or-later
// Reading goes on behind a fault, so that one pass finds them all, and invents none.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/parse.hpp"
#include "job_text.hpp"

namespace batchai::job::test {
namespace {

using testing::ElementsAre;

std::vector<std::string> places(const std::string& text) {
    std::vector<std::string> out;
    for (const Diagnostic& d : parse(text).diagnostics) {
        out.push_back(std::to_string(d.position.line) + ":" + std::to_string(d.position.column) +
                      " " + d.code);
    }
    return out;
}

TEST(ReadingOver, FindsFaultsOfAllLevelsInOnePassInOrder) {
    EXPECT_THAT(places("{ // comment\n"
                       "  \"properties\": {\n"
                       "    \"nodeCount\": \"4\",\n"
                       "    \"stdOutErrPathPrefix\": 'logs'\n"
                       "    \"horovodSettings\": {\"pythonScriptFilepath\": \"a\", \"x\": 1,},\n"
                       "    \"customMpiSettings\": {\"commandLine\": \"a\"},\n"
                       "    \"nodeCount\": 5\n"
                       "  }\n"
                       "}\n"),
                ElementsAre("1:3 E005", "3:18 E014", "4:28 E009", "4:34 E009", "5:25 E012",
                            "5:54 E012", "5:60 E006", "6:5 E018", "7:5 E010"));
}

TEST(ReadingOver, AnOpenStringHidesNoLaterFault) {
    EXPECT_THAT(places(with_properties("\"location\": \"east,\n\"colour\": 1")),
                ElementsAre("5:1 W103", "5:13 E009", "6:1 E012"));
}

TEST(ReadingOver, CallsNothingMissingInAFileThatEndsTooEarly) {
    EXPECT_THAT(places("{\"properties\": {\"colour\": 1,"), ElementsAre("1:17 E012", "1:29 E009"));
}

TEST(ReadingOver, ColumnsCountCharactersAndTabsAsOne) {
    EXPECT_THAT(places(with_properties("\t\"$\u00e4\u20ac\U0001F600\": 1, \"colour\": 1")),
                ElementsAre("5:13 E012"));
}

TEST(ReadingOver, CarriageReturnsBelongToTheLineEnd) {
    EXPECT_THAT(places("{\r\n\"properties\": {\r\n\"nodeCount\": 1,\r\n\"colour\": 1,\r\n"
                       "\"stdOutErrPathPrefix\": \"l\",\r\n\"customToolkitSettings\": {}}}\r\n"),
                ElementsAre("4:1 E012"));
}

}  // namespace
}  // namespace batchai::job::test

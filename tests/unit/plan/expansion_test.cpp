// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "plan/paths.hpp"
#include "plan/plan_file.hpp"
#include "planned.hpp"

namespace batchai::plan {

TEST(Expansion, ReplacesNamesInBothForms) {
    Scope scope;
    scope.set("A", "1");
    scope.set("AB", "2");
    for (const auto& [text, wanted] :
         std::vector<std::pair<std::string, std::string>>{{"$A", "1"},
                                                          {"${A}B", "1B"},
                                                          {"$AB", "2"},
                                                          {"x$A/$AB", "x1/2"},
                                                          {"$", "$"},
                                                          {"$1", "$1"},
                                                          {"${A", "${A"},
                                                          {"${A:-x}", "${A:-x}"},
                                                          {"$$A", "$1"},
                                                          {"", ""},
                                                          {"${}", "${}"},
                                                          {"a$A$A", "a11"}})
        EXPECT_EQ(scope.expand(text).text, wanted) << text;
}

TEST(Expansion, NamesWhatIsUndefinedOnce) {
    const auto expanded = Scope().expand("$X/$Y/${X}");
    EXPECT_EQ(expanded.text, "//");
    EXPECT_EQ(expanded.undefined, (std::vector<std::string>{"X", "Y"}));
}

TEST(Expansion, DoesNotExpandTwice) {
    Scope scope;
    scope.set("A", "$B");
    scope.set("B", "no");
    EXPECT_EQ(scope.expand("$A").text, "$B");
}

TEST(Environment, ComesInTheOrderServiceSiteUser) {
    site::Site site;
    site.environment = {{"SITE", "s"}};
    Inputs inputs = test_inputs();
    inputs.login_environment = {{"PATH", "/usr/bin"}};
    const auto made = planned(small_job(R"(, "environmentVariables": [
        {"name": "PATH", "value": "$HOME/bin:$PATH"},
        {"name": "MINE", "value": "$SITE-${USER}-$AZ_BATCHAI_OUTPUT_MODEL"}],
        "outputDirectories": [{"id": "MODEL", "pathPrefix": "/nfs"}])"),
                              site, inputs);
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(value_of(*made.plan, "PATH"), "/home/ada/bin:/usr/bin");
    EXPECT_EQ(value_of(*made.plan, "MINE"),
              "s-ada-" + value_of(*made.plan, "AZ_BATCHAI_OUTPUT_MODEL"));
    const auto& environment = made.plan->environment;
    ASSERT_GE(environment.size(), 3U);
    EXPECT_EQ(environment[environment.size() - 3].name, "SITE");
    EXPECT_EQ(environment.back().name, "MINE");
}

TEST(Environment, LetsPathsUseTheUsersVariables) {
    const auto made = planned(small_job(R"(, "environmentVariables":
        [{"name": "DATA", "value": "/nfs/data"}],
        "inputDirectories": [{"id": "SET", "path": "$DATA/set"}])"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(value_of(*made.plan, "AZ_BATCHAI_INPUT_SET"), "/nfs/data/set");
}

TEST(Environment, WarnsOfAnUndefinedNameAtItsPlace) {
    const auto made =
        planned(small_job(R"(, "inputDirectories": [{"id": "A", "path": "/x/$NOPE/y"}])"));
    ASSERT_TRUE(made.plan);
    EXPECT_EQ(value_of(*made.plan, "AZ_BATCHAI_INPUT_A"), "/x//y");
    ASSERT_EQ(made.diagnostics.size(), 1U);
    EXPECT_EQ(made.diagnostics[0].code, "W200");
    EXPECT_EQ(made.diagnostics[0].severity, job::Severity::warning);
    EXPECT_GT(made.diagnostics[0].position.line, 0U);
}

TEST(Environment, OfMoreThanAProgramCanBeGivenIsAFaultAtItsPlace) {
    const auto made = planned(
        small_job(fmt::format(R"(, "environmentVariables": [{{"name": "LONG", "value": "{}"}}])",
                              std::string(300000, 'x'))));
    EXPECT_FALSE(made.plan);
    ASSERT_EQ(made.diagnostics.size(), 1U);
    EXPECT_EQ(made.diagnostics[0].code, "E115");
    EXPECT_GT(made.diagnostics[0].position.line, 0U);
    EXPECT_LT(made.diagnostics[0].message.size(), 200U);
}

TEST(Environment, CannotBeMadeToFillTheMemoryByValuesOfEachOther) {
    std::string variables = R"({"name": "A0", "value": "xxxxxxxxxxxxxxxx"})";
    std::string sixteen_times;
    for (int i = 1; i < 12; ++i) {
        sixteen_times.clear();
        for (int times = 0; times < 16; ++times)
            sixteen_times += fmt::format("$A{}", i - 1);
        variables += fmt::format(R"(, {{"name": "A{}", "value": "{}"}})", i, sixteen_times);
    }
    const auto made = planned(small_job(fmt::format(
        R"(, "environmentVariables": [{}], "inputDirectories": [{{"id": "I", "path": "/$A3"}}])",
        variables)));
    EXPECT_FALSE(made.plan);
    EXPECT_EQ(made.diagnostics.front().code, "E115");
}

TEST(Environment, LeavesCommandLinesToTheShell) {
    EXPECT_EQ(planned(small_job()).plan.value().steps.back().command, "./solve $X");
}

TEST(Environment, HoldsSecretsByNameOnly) {
    const auto made =
        planned(small_job(R"(, "secrets": [{"name": "TOKEN", "value": "hush-hush"}])"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->secret_names, std::vector<std::string>{"TOKEN"});
    EXPECT_EQ(to_json(*made.plan).find("hush"), std::string::npos);
}

TEST(Environment, QuotesInterpreterAndScriptAndNothingElse) {
    const auto made = planned(R"("nodeCount": 1, "stdOutErrPathPrefix": "/l",
        "horovodSettings": {"pythonScriptFilePath": "$HOME/it's; rm x.py",
        "pythonInterpreterPath": "/opt/py thon", "commandLineArgs": " --a=$B 'c d' "})");
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->steps.back().command,
              "exec '/opt/py thon' '/home/ada/it'\\''s; rm x.py' --a=$B 'c d'");
}

}  // namespace batchai::plan

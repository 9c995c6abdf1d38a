// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "cli/output/query.hpp"
#include "status/job_watch.hpp"
#include "status/output_directory.hpp"
#include "status/resource_view.hpp"
#include "submit/job_file.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(PythonTime, HasABlankWhereIsoHasAT) {
    const auto time = base::from_iso8601("2018-06-15T21:43:12.424000+00:00");
    EXPECT_EQ(status::python_time(time.value()), "2018-06-15 21:43:12.424000+00:00");
}

TEST(PythonDuration, LooksLikeATimedelta) {
    EXPECT_EQ(status::python_duration(seconds(205)), "0:03:25");
    EXPECT_EQ(status::python_duration(seconds(26 * 3600)), "1 day, 2:00:00");
    EXPECT_EQ(status::python_duration(microseconds(1500000)), "0:00:01.500000");
}

TEST(PythonDuration, IsNeverNegativeWhenClocksDisagree) {
    EXPECT_EQ(status::python_duration(seconds(-3)), "0:00:00");
}

TEST(ErrorLines, GiveTheMessageAndEachDetail) {
    const auto errors = parse_json(
        R"([{"code":"JobFailed","message":"Job failed","details":[{"name":"Node","value":"h2"}]}])",
        "test");
    EXPECT_EQ(status::error_lines(errors.value()),
              "Error message: Job failed\nDetails:\n  Node: h2\n");
    EXPECT_EQ(status::error_lines(nullptr), "");
}

TEST(FileUrl, EscapesWhatAUrlMayNotHold) {
    EXPECT_EQ(status::file_url("/a b/ü%.txt"), "file:///a%20b/%C3%BC%25.txt");
}

TEST(JobNameFromFile, IsAlwaysAValidName) {
    EXPECT_EQ(submit::job_name_from_file("runs/my job.v2.json"), "my-job-v2");
    EXPECT_EQ(submit::job_name_from_file("-"), "job");
    EXPECT_EQ(submit::job_name_from_file("/x/....json"), "job");
    EXPECT_LE(submit::job_name_from_file(std::string(300, 'a') + ".json").size(), 64U);
}

TEST(Ids, AreArmsAndGiveTheirPartsBack) {
    const auto id = status::cluster_id("sub", {"rg", "ws", "nc6"});
    EXPECT_EQ(id,
              "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.BatchAI/workspaces/ws/"
              "clusters/nc6");
    EXPECT_EQ(status::id_part(id, "workspaces"), "ws");
    EXPECT_EQ(status::id_part(id, "clusters"), "nc6");
    EXPECT_EQ(status::id_part(id, "jobs"), "");
    EXPECT_EQ(status::id_part("/subscriptions/s/resourcegroups/rg", "resourceGroups"), "rg");
}

TEST(ClusterKey, AnIdNamesItsGroupAndWorkspaceAndANameDoesNot) {
    const store::WorkspaceKey own{"g", "w"};
    using Key = store::ClusterKey;
    const std::string group = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.BatchAI";
    EXPECT_EQ(status::cluster_key("nc6", own).value(), (Key{"g", "w", "nc6"}));
    EXPECT_EQ(status::cluster_key(group + "/workspaces/ws/clusters/nc6", own).value(),
              (Key{"rg", "ws", "nc6"}));
    EXPECT_EQ(status::cluster_key("/SUBSCRIPTIONS/s/RESOURCEGROUPS/rg/providers/microsoft.batchai/"
                                  "Workspaces/ws/Clusters/nc6",
                                  own)
                  .value(),
              (Key{"rg", "ws", "nc6"}));
    // Ids had no workspaces before 2018-05-01.
    EXPECT_EQ(status::cluster_key(group + "/clusters/nc6", own).value(), (Key{"rg", "w", "nc6"}));
    for (const std::string& text :
         {group + "/workspaces/ws", group + "/workspaces/ws/clusters", std::string("clusters/nc6"),
          std::string("/workspaces/ws/clusters/nc6"), std::string("rg/ws/nc6"),
          group + "/workspaces/ws/clusters/nc6/", group + "/workspaces/ws/fileServers/nc6"})
        EXPECT_FALSE(status::cluster_key(text, own)) << text;
}

TEST(ParentNames, PreferTheOptionThenOurVariableThenAzures) {
    unsetenv("BATCHAI_DEFAULTS_GROUP");
    unsetenv("AZURE_DEFAULTS_GROUP");
    EXPECT_TRUE(user::group_name({}).fallback);
    EXPECT_EQ(user::group_name({}).value, "default");
    setenv("AZURE_DEFAULTS_GROUP", "azures", 1);
    EXPECT_EQ(user::group_name({}).value, "azures");
    setenv("BATCHAI_DEFAULTS_GROUP", "ours", 1);
    EXPECT_EQ(user::group_name({}).value, "ours");
    EXPECT_FALSE(user::group_name({}).fallback);
    EXPECT_EQ(user::group_name({"given", {}, {}}).value, "given");
    unsetenv("BATCHAI_DEFAULTS_GROUP");
    unsetenv("AZURE_DEFAULTS_GROUP");
}

TEST(Columns, OfAJobLeaveTheExitCodeBlankUntilItIsKnown) {
    const auto job = parse_json(
        R"({"name":"j","cluster":null,"toolType":"mpi","nodeCount":2,"executionState":"queued",
            "provisioningState":"succeeded","executionInfo":null})",
        "test");
    const auto table = status::job_columns(job.value());
    ASSERT_EQ(table.rows.size(), 1U);
    EXPECT_EQ(table.rows[0], (std::vector<std::string>{"j", "", "", "", "mpi", "2", "queued", ""}));
}

}  // namespace
}  // namespace batchai::cli

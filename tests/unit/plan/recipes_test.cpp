// SPDX-License-Identifier: GPL-2.0-or-later
// Job files in the shape of Batch AI's public recipes, one or more for each toolkit. Each is
// planned without a network. NAME.txt beside NAME.json says what the job would run. To write these
// files anew after a wanted change: BATCHAI_WRITE_GOLDEN=1 plan_test --gtest_filter='*Recipes*'
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "job/schema/storage_account.hpp"
#include "planned.hpp"

namespace batchai::plan {

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::vector<std::string> recipes() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(BATCHAI_PLAN_DATA "/recipes")) {
        if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

// The recipes of the oldest schema have no volumes of their own, but those of their cluster.
Inputs with_cluster() {
    Inputs inputs = test_inputs();
    inputs.identity.cluster = "nc6";
    ClusterView cluster{.name = "nc6", .vm_size = "STANDARD_NC6", .node_limit = 2};
    job::AzureFileShare share;
    share.account_name = "mystorageaccount";
    share.azure_file_url = "https://mystorageaccount.file.core.windows.net/external";
    share.relative_mount_path = "external";
    cluster.mount_volumes.azure_file_shares.push_back(share);
    inputs.cluster = cluster;
    return inputs;
}

std::string_view kind_name(StepKind kind) {
    switch (kind) {
        case StepKind::preparation:
            return "preparation";
        case StepKind::ranks:
            return "ranks";
        case StepKind::master:
            return "master";
        case StepKind::parameter_servers:
            return "parameter servers";
    }
    return "?";
}

std::string description(const Made& made) {
    std::string out;
    for (const auto& diagnostic : made.diagnostics)
        out += fmt::format("{}:{}: {} {}\n", diagnostic.position.line, diagnostic.position.column,
                           diagnostic.code, diagnostic.message);
    if (!made.plan) return out + "no plan\n";
    const Plan& plan = *made.plan;
    out += fmt::format("toolkit {}, {} nodes, {} processes, {} on a node, nice {}\n",
                       plan.tool_type, plan.allocation.nodes, plan.allocation.processes,
                       plan.allocation.processes_per_node, plan.allocation.nice);
    out += fmt::format("{}\n", plan.declaration);
    for (const OutputDirectory& output : plan.outputs)
        out += fmt::format("output {} {}{}\n", output.id, output.path,
                           output.create ? "" : " (as it is)");
    for (const Step& step : plan.steps)
        out += fmt::format("{} x {}{}{} -> {}:\n{}\n", kind_name(step.kind), step.processes,
                           step.pmix ? " pmix" : "", step.processes_per_node > 1 ? " several" : "",
                           step.stdout_name, step.command);
    return out;
}

Made plan_of(const std::string& text) {
    auto parsed = job::parse(text);
    Made made;
    if (parsed.spec) {
        const job::StorageAccount account{.name = "mystorageaccount", .key = "a2V5"};
        const auto faults = job::apply_storage_account(*parsed.spec, account, parsed.positions);
        made = make(*parsed.spec, parsed.positions, {}, with_cluster());
        made.diagnostics.insert(made.diagnostics.begin(), faults.begin(), faults.end());
    }
    made.diagnostics.insert(made.diagnostics.begin(), parsed.diagnostics.begin(),
                            parsed.diagnostics.end());
    return made;
}

class Recipes : public testing::TestWithParam<std::string> {};

}  // namespace

TEST_P(Recipes, PlanOfflineAndSayWhatTheyRun) {
    const fs::path directory = BATCHAI_PLAN_DATA "/recipes";
    const Made made = plan_of(text_of(directory / (GetParam() + ".json")));
    EXPECT_TRUE(made.plan) << "a recipe has an error";
    const fs::path expected = directory / (GetParam() + ".txt");
    if (std::getenv("BATCHAI_WRITE_GOLDEN") != nullptr)
        std::ofstream(expected) << description(made);
    EXPECT_EQ(description(made), text_of(expected));
}

INSTANTIATE_TEST_SUITE_P(All, Recipes, testing::ValuesIn(recipes()), [](const auto& recipe) {
    std::string name = recipe.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

// Breaks when the folder is not found, so that nothing is tested.
TEST(RecipesFolder, HasEveryToolkit) {
    std::set<std::string> toolkits;
    for (const std::string& name : recipes()) {
        const Made made =
            plan_of(text_of(fs::path(BATCHAI_PLAN_DATA "/recipes") / (name + ".json")));
        if (made.plan) toolkits.insert(made.plan->tool_type);
    }
    EXPECT_EQ(toolkits, (std::set<std::string>{"caffe", "caffe2", "chainer", "cntk", "custom",
                                               "horovod", "mpi", "pytorch", "tensorflow"}));
}

}  // namespace batchai::plan

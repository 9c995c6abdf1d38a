// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/output/transfer_progress.hpp"
#include "cli/tree/ids.hpp"
#include "cli/tree/refused.hpp"
#include "cli/tree/tree.hpp"
#include "cli/tree/walk.hpp"
#include "cli/verbs/azure/storage_paths.hpp"

namespace batchai::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

Words words_of(std::string_view line) {
    Words words;
    for (const std::string_view word : base::split(line, ' '))
        words.emplace_back(word);
    return words;
}

const CLI::App* command_at(const CLI::App& app, std::string_view path) {
    for (const auto& command : all_commands(app)) {
        if (command.text() == path) return command.app;
    }
    return nullptr;
}

// Breaks when a command of the table exists, or is answered as if it were a typing error.
TEST(AzureTables, EachCommandOfTheTableIsAnsweredWithItsReason) {
    const auto tree = make_tree();
    for (const auto& command : refused_commands()) {
        EXPECT_EQ(command_at(tree->app, command.path), nullptr) << command.path;
        for (const std::string more : {"", " show", " create --name x"}) {
            const auto prepared =
                prepare_arguments(tree->app, words_of(std::string(command.path) + more));
            ASSERT_FALSE(prepared) << command.path << more;
            EXPECT_THAT(prepared.error().what, HasSubstr(std::string(command.reason)));
            EXPECT_THAT(prepared.error().what, HasSubstr("`az "));
            EXPECT_EQ(prepared.error().exit_code, base::ExitCode::usage);
        }
    }
}

// Breaks when a command of the table is not there, has the option itself by now, or does not
// answer.
TEST(AzureTables, EachOptionOfTheTableIsAcceptedOrRefusedWithItsReason) {
    for (const auto& option : azure_options()) {
        for (const std::string_view name : base::split(option.names, ',')) {
            const auto tree = make_tree();
            const auto* leaf = command_at(tree->app, option.command);
            ASSERT_NE(leaf, nullptr) << option.command;
            const auto* added = leaf->get_option_no_throw(std::string(name));
            ASSERT_NE(added, nullptr) << option.command << " " << name;
            EXPECT_THAT(added->get_description(), HasSubstr(std::string(option.reason)))
                << option.command << " has " << name << " of its own; take it out of the table";
            Words line = words_of(option.command);
            line.emplace_back(name);
            if (!option.is_flag) line.emplace_back("value");
            std::reverse(line.begin(), line.end());
            std::string message;
            try {
                tree->app.parse(line);
            } catch (const CLI::ParseError& error) {
                message = error.what();
            }
            // Other options that are required come after these.
            EXPECT_THAT(message, testing::Not(HasSubstr(std::string(option.reason))));
            const auto said = testing::ElementsAre(HasSubstr(std::string(option.reason)));
            const auto nothing = testing::IsEmpty();
            if (option.effect == Effect::refused)
                EXPECT_THAT(tree->refused_options, said);
            else
                EXPECT_THAT(tree->refused_options, nothing);
            if (option.effect == Effect::noted)
                EXPECT_THAT(tree->noted_options, said);
            else
                EXPECT_THAT(tree->noted_options, nothing);
        }
    }
}

// Breaks when docs/az.md does not say what the program says.
TEST(AzureTables, ThePageHasBothTables) {
    const auto page = base::read_file(BATCHAI_AZ_PAGE);
    ASSERT_TRUE(page);
    EXPECT_THAT(*page, HasSubstr(refused_commands_page()));
    EXPECT_THAT(*page, HasSubstr(azure_options_page()));
}

// Breaks when a command of the Azure CLI's modules for Batch AI is neither there nor answered.
TEST(AzureTables, EveryCommandOfBatchAiRunsOrIsAnswered) {
    const auto tree = make_tree();
    for (const char* path : {"workspace create",
                             "workspace show",
                             "workspace list",
                             "workspace delete",
                             "experiment create",
                             "experiment show",
                             "experiment list",
                             "experiment delete",
                             "cluster create",
                             "cluster show",
                             "cluster list",
                             "cluster delete",
                             "cluster resize",
                             "cluster auto-scale",
                             "cluster node list",
                             "cluster node exec",
                             "cluster file list",
                             "job create",
                             "job show",
                             "job list",
                             "job delete",
                             "job terminate",
                             "job wait",
                             "job file list",
                             "job file stream",
                             "job node list",
                             "job node exec",
                             "file-server create",
                             "file-server show",
                             "file-server list",
                             "file-server delete",
                             "list-usages",
                             "group create",
                             "group delete",
                             "storage account create",
                             "storage share create",
                             "storage directory create",
                             "storage file upload",
                             "storage file download",
                             "storage file list",
                             "storage file upload-batch",
                             "storage file download-batch",
                             "storage container create",
                             "storage blob upload",
                             "storage blob upload-batch",
                             "login",
                             "provider register",
                             "keyvault secret"}) {
        EXPECT_TRUE(command_at(tree->app, path) != nullptr || refused_command(path) != nullptr)
            << path;
    }
}

constexpr const char* cluster_id =
    "/subscriptions/0/resourceGroups/team/providers/Microsoft.BatchAI/workspaces/dev/clusters/nc6";

base::Result<std::vector<Words>> expanded(const std::string& line) {
    const auto tree = make_tree();
    return expand_ids(tree->app, words_of(line));
}

TEST(Ids, StandForTheNamesThatTheyHave) {
    EXPECT_THAT(expanded(std::string("cluster show -o table --ids ") + cluster_id).value(),
                ElementsAre(words_of("cluster show -o table --resource-group team --workspace dev "
                                     "--name nc6")));
    EXPECT_THAT(
        expanded("workspace delete --ids /subscriptions/0/resourceGroups/a/providers/"
                 "Microsoft.BatchAI/workspaces/w /subscriptions/0/resourcegroups/b/providers/"
                 "Microsoft.BatchAI/workspaces/x --yes")
            .value(),
        ElementsAre(words_of("workspace delete --resource-group a --workspace w --yes"),
                    words_of("workspace delete --resource-group b --workspace x --yes")));
    EXPECT_THAT(expanded("job list --ids x").value(), ElementsAre(words_of("job list --ids x")))
        << "which the parser then refuses";
}

TEST(Ids, OfAnythingElseAreRefused) {
    const std::vector<std::string> wrong{
        "job show --ids nc6", "job show --ids /a", std::string("job show --ids ") + cluster_id,
        // What is missing would come from the user's defaults.
        "workspace show --ids /workspaces/w1", "workspace show --ids /a/b/workspaces/w1",
        "job show --ids /resourceGroups/g/workspaces/w/jobs/train",
        std::string("cluster show --name x --ids ") + cluster_id, "job show --ids"};
    for (const auto& line : wrong) {
        const auto lines = expanded(line);
        ASSERT_FALSE(lines) << line;
        EXPECT_EQ(lines.error().exit_code, base::ExitCode::usage) << line;
    }
}

TEST(Ids, AreOptionsOfTheCommandsOfOneResource) {
    const auto tree = make_tree();
    for (const char* path : {"workspace show", "experiment delete", "cluster delete",
                             "job terminate", "file-server show", "storage account delete"}) {
        const auto* leaf = command_at(tree->app, path);
        ASSERT_NE(leaf, nullptr) << path;
        EXPECT_NE(leaf->get_option_no_throw("--ids"), nullptr) << path;
    }
    EXPECT_EQ(command_at(tree->app, "job list")->get_option_no_throw("--ids"), nullptr);
}

TEST(GlobalOptions, AreTakenByEveryCommand) {
    const auto tree = make_tree();
    for (const auto& command : all_commands(tree->app)) {
        if (!visible_commands(*command.app).empty()) continue;
        for (const char* name : {"--verbose", "--debug", "--only-show-errors", "--subscription"})
            EXPECT_NE(command.app->get_option_no_throw(name), nullptr) << command.text();
    }
}

TEST(UploadPath, TakesALastPartWithADotForTheNewName) {
    EXPECT_EQ(upload_path("cifar", "dir/train.py"), "cifar/train.py");
    EXPECT_EQ(upload_path("", "dir/train.py"), "train.py");
    EXPECT_EQ(upload_path("cifar/new.py", "train.py"), "cifar/new.py");
    EXPECT_EQ(upload_path("v1.0/models", "a"), "v1.0/models/a");
    EXPECT_EQ(upload_path("../x", "a"), "../x/a") << "and is refused later";
    EXPECT_EQ(upload_path("cifar/", "a.py"), "cifar//a.py");
}

TEST(ProgressLine, IsOneLineForAnyName) {
    EXPECT_EQ(progress_line("a", 512, 1024), "a [##########          ]  50.0% of 1.0 KiB");
    EXPECT_EQ(progress_line("a", 0, 0), "a [####################] 100.0% of 0 B");
    const auto line = progress_line("line\nbreak\x1b[31m" + std::string(200, 'x'), 2, 1);
    EXPECT_EQ(line.find_first_of("\n\x1b"), std::string::npos);
    EXPECT_LT(line.size(), 120U);
}

}  // namespace
}  // namespace batchai::cli

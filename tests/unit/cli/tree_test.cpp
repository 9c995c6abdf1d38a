// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/tree.hpp"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process.hpp"
#include "base/text.hpp"
#include "cli/tree/walk.hpp"

namespace batchai::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using Words = std::vector<std::string>;

base::Result<Words> prepared(Words words) {
    static const auto tree = make_tree();
    return prepare_arguments(tree->app, std::move(words));
}

TEST(Arguments, DropTheAzureCliModulesName) {
    EXPECT_THAT(prepared({"batchai", "job", "list"}).value(), ElementsAre("job", "list"));
}

TEST(Arguments, CompleteUniqueBeginningsOfLongOptions) {
    EXPECT_THAT(prepared({"job", "create", "--config", "f", "--clus=c"}).value(),
                ElementsAre("job", "create", "--config-file", "f", "--cluster=c"));
    // Two options begin so.
    EXPECT_FALSE(prepared({"job", "create", "--storage-account", "x"}));
}

TEST(Arguments, AValueIsNeverTakenForACommandOrAnOption) {
    EXPECT_THAT(prepared({"job", "show", "--name", "--odd"}).value(),
                ElementsAre("job", "show", "--name", "--odd"));
}

// Breaks when `--name $UNSET --dry-run` submits a job named --dry-run.
TEST(Arguments, AnOptionIsNoValueOfTheOneBeforeIt) {
    for (const Words& words : std::vector<Words>{
             {"job", "create", "--config-file", "f", "--name", "--dry-run"},
             {"job", "create", "-n", "--dry-run", "-f", "f"},
             {"job", "create", "-n", "--dry", "-f", "f"},
             {"job", "create", "-f", "-n", "x"},
             {"storage", "share", "create", "--account-name", "a", "-n", "--fail-on-exist"}}) {
        const auto refused = prepared(words);
        ASSERT_FALSE(refused);
        EXPECT_THAT(refused.error().what, HasSubstr("needs a value"));
        EXPECT_EQ(refused.error().exit_code, base::ExitCode::usage);
    }
    EXPECT_THAT(prepared({"job", "show", "--name=", "--debug"}).value(),
                ElementsAre("job", "show", "--name", "", "--debug"));
    EXPECT_THAT(prepared({"job", "show", "-n=base", "-o=tsv", "-e=-x"}).value(),
                ElementsAre("job", "show", "-n", "base", "-o", "tsv", "-e", "-x"));
    EXPECT_THAT(
        prepared({"storage", "account", "create", "-n", "a", "--https-only", "-g", "g"}).value(),
        ElementsAre("storage", "account", "create", "-n", "a", "--https-only", "-g", "g"));
}

TEST(Arguments, GuessWhatWasMeant) {
    const auto verb = prepared({"job", "craete"});
    ASSERT_FALSE(verb);
    EXPECT_THAT(verb.error().what, HasSubstr("did you mean \"create\"?"));
    EXPECT_EQ(verb.error().exit_code, base::ExitCode::usage);
    const auto option = prepared({"job", "create", "--dry-rnu"});
    ASSERT_FALSE(option);
    EXPECT_THAT(option.error().what, HasSubstr("did you mean \"--dry-run\"?"));
}

TEST(Tree, TakesEveryCommandOfTheTutorialAndOfScripts) {
    const std::string resource = "--resource-group batchai.horovod";
    const std::string parents = " --workspace batchaidev " + resource;
    for (const std::string& line : {
             std::string("group create --name batchai.horovod --location eastus"),
             "batchai workspace create " + resource + " --workspace batchaidev",
             "batchai experiment create --name cifar" + parents,
             "batchai cluster create --name nc6cluster --vm-priority dedicated --vm-size "
             "Standard_NC6 --target 4 --generate-ssh-keys" +
                 parents,
             "batchai cluster show --name nc6cluster --output table" + parents,
             std::string("storage account create --resource-group batchai.horovod --name "
                         "mystorageaccount --location eastus --sku Standard_LRS"),
             std::string("storage share create --name myshare --account-name mystorageaccount"),
             std::string("storage directory create --name cifar --share-name myshare "
                         "--account-name mystorageaccount"),
             std::string("storage file upload --path cifar --share-name myshare --source "
                         "cifar_cnn_distributed.py --account-name mystorageaccount"),
             "batchai job create --cluster nc6cluster --name cifar_distributed --experiment cifar "
             "--config-file job.json --storage-account-name mystorageaccount" +
                 parents,
             "batchai job show --name cifar_distributed --experiment cifar --query executionState" +
                 parents,
             "batchai job file list --job cifar_distributed --experiment cifar --output table" +
                 parents,
             "batchai job file stream --job cifar_distributed --file-name stdout.txt --experiment "
             "cifar" +
                 parents,
             std::string("storage file download --path "
                         "cifar/saved_models/keras_cifar10_trained_model.h5 --share-name myshare "
                         "--account-name mystorageaccount"),
             "batchai cluster resize --name nc6cluster --target 0" + parents,
             std::string("group delete --name batchai.horovod"),
             // Scripts give these to every command.
             std::string("batchai job wait --name train -o none --query id"),
             std::string("batchai job file stream --job train --file-name stdout.txt -o table"),
             std::string("account set -s 00000000-0000-0000-0000-000000000000"),
         }) {
        const auto tree = make_tree();
        Words words;
        std::istringstream stream(line);
        for (std::string word; stream >> word;)
            words.push_back(word);
        auto ready = prepare_arguments(tree->app, words);
        ASSERT_TRUE(ready) << line << ": " << ready.error().text();
        std::reverse(ready->begin(), ready->end());
        EXPECT_NO_THROW(tree->app.parse(*ready)) << line;
        EXPECT_TRUE(tree->action) << line;
    }
}

TEST(Arguments, AnUnknownOptionIsNamedBeforeWhatFollowsFromIt) {
    const auto command = prepared({"--foo", "bar", "job", "list"});
    ASSERT_FALSE(command);
    EXPECT_THAT(command.error().what, testing::HasSubstr("unknown option \"--foo\""));
    const auto value = prepared({"job", "show", "--foo", "--name", "--output"});
    ASSERT_FALSE(value);
    EXPECT_THAT(value.error().what, testing::HasSubstr("unknown option \"--foo\""));
}

TEST(Tree, EveryVerbHasADescriptionAndAnExample) {
    const auto tree = make_tree();
    for (const auto& command : all_commands(tree->app)) {
        EXPECT_FALSE(command.app->get_description().empty()) << command.text();
        if (visible_commands(*command.app).empty()) {
            EXPECT_THAT(command.app->get_footer(), HasSubstr("batchai ")) << command.text();
        }
    }
}

// Breaks when the places of the verbs are not those of --help, which has them in the order of work,
// or when a group takes its example from another verb than its first.
TEST(Tree, HasTheVerbsOfAllFilesOfAGroupInOrder) {
    const auto tree = make_tree();
    const auto names = [&](const CLI::App& group) {
        Words out;
        for (const auto* verb : group.get_subcommands([](const CLI::App*) { return true; }))
            out.push_back(verb->get_name());
        return out;
    };
    const auto& job = *tree->app.get_subcommand("job");
    EXPECT_THAT(names(job), ElementsAre("create", "show", "list", "wait", "terminate", "delete",
                                        "resume", "logs", "top", "stacks", "events", "report",
                                        "file", "shell", "port", "cp", "node", "resize"));
    EXPECT_THAT(job.get_footer(), HasSubstr("batchai job create"));
    const auto& storage = *tree->app.get_subcommand("storage");
    EXPECT_THAT(names(storage),
                ElementsAre("account", "share", "container", "directory", "file", "blob"));
}

TEST(ManualPages, ExistForEveryVisibleCommandAndHideTheOthers) {
    const auto tree = make_tree();
    for (const auto& page : manual_pages(tree->app)) {
        const auto text = manual_page(tree->app, page, "1");
        ASSERT_TRUE(text);
        EXPECT_THAT(*text, HasSubstr(".SH NAME"));
        EXPECT_THAT(*text, Not(HasSubstr("hand-over ")));
    }
    const auto job = manual_page(tree->app, "batchai-job", "1").value();
    EXPECT_THAT(job, HasSubstr("\\-\\-config\\-file"));
    EXPECT_THAT(job, HasSubstr(".SH EXIT STATUS"));
    EXPECT_FALSE(manual_page(tree->app, "batchai-nothing", "1"));
}

// What bash offers for a command line whose last word is being typed. The completion of az works
// only where az is a link to batchai, which the guard's functions pretend here.
Words offered_by_bash(const Words& words, const std::string& name = "batchai") {
    static const auto tree = make_tree();
    base::RunOptions options;
    options.standard_input = "readlink() { echo /opt/bin/batchai; }\n" +
                             completion_script(tree->app, "bash", name) +
                             "\nCOMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _" + name +
                             "\n"
                             "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    base::Arguments arguments{"bash", "-s", "--"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const auto done = base::run(arguments, options);
    if (!done || done->exit_code != 0)
        return {"bash failed: " + (done ? done->standard_error : "")};
    Words offered;
    for (const std::string_view line : base::split(done->standard_output, '\n'))
        if (!line.empty()) offered.emplace_back(line);
    return offered;
}

TEST(Completion, OfBashOffersTheCommandsBelowTheOneTyped) {
    EXPECT_THAT(offered_by_bash({"batchai", "job", "file", "st"}), ElementsAre("stream"));
    // As the drop-in for the Azure CLI.
    EXPECT_THAT(offered_by_bash({"az", "batchai", "job", "file", "st"}), ElementsAre("stream"));
    EXPECT_THAT(offered_by_bash({"batchai", ""}), Not(Contains("hand-over")));
    EXPECT_THAT(offered_by_bash({"batchai", ""}), IsSupersetOf({"cluster", "job", "validate"}));
}

TEST(Completion, OfBashUnderTheNameAzOffersTheWordBatchai) {
    EXPECT_THAT(offered_by_bash({"az", ""}, "az"), IsSupersetOf({"batchai", "storage", "group"}));
    EXPECT_THAT(offered_by_bash({"az", "batchai", "clus"}, "az"), ElementsAre("cluster"));
    EXPECT_THAT(offered_by_bash({"az", "storage", "file", "down"}, "az"),
                ElementsAre("download", "download-batch"));
    EXPECT_THAT(offered_by_bash({"batchai", "batch"}), IsEmpty());
}

TEST(Completion, OfBashOffersTheOptionsOfTheCommandTyped) {
    EXPECT_THAT(offered_by_bash({"batchai", "job", "create", "--dry"}), ElementsAre("--dry-run"));
    EXPECT_THAT(offered_by_bash({"batchai", "job", "list", "--dry"}), IsEmpty());
}

// Breaks when the value of an option is completed only after a blank.
TEST(Completion, OfBashOffersFilesWhereOneIsExpected) {
    EXPECT_THAT(offered_by_bash({"batchai", "job", "create", "-f", "/etc/host"}),
                Contains("/etc/hosts"));
    EXPECT_THAT(offered_by_bash({"batchai", "job", "create", "--config-file", "=", "/etc/host"}),
                Contains("/etc/hosts"));
    EXPECT_THAT(offered_by_bash({"batchai", "job", "create", "--name", "/etc/host"}), IsEmpty());
}

// Breaks when a directory "job" here makes "batchai jo<TAB>" a "job/".
TEST(Completion, OfBashTakesNoCommandForADirectory) {
    const auto tree = make_tree();
    EXPECT_THAT(completion_script(tree->app, "bash"), Not(HasSubstr("complete -o filenames")));
}

TEST(Completion, OfOtherShellsHasTheCommandsThatAreNotHidden) {
    const auto tree = make_tree();
    for (const auto* shell : {"zsh", "fish"}) {
        const auto script = completion_script(tree->app, shell);
        EXPECT_THAT(script, HasSubstr("job file stream")) << shell;
        EXPECT_THAT(script, Not(HasSubstr("hand-over"))) << shell;
    }
}

}  // namespace
}  // namespace batchai::cli

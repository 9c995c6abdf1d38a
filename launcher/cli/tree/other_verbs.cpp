// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>

#include <fmt/format.h>

#include "cli/tree/builder.hpp"
#include "cli/tree/completion.hpp"
#include "cli/tree/manual.hpp"
#include "cli/verbs/job.hpp"
#include "cli/verbs/run.hpp"

namespace batchai::cli {
namespace {

struct CompletionOptions {
    std::string shell;
};

struct ManualOptions {
    std::string page;
};

void add_completion(CommandTree& tree) {
    auto options = std::make_shared<CompletionOptions>();
    auto* leaf = add_leaf(tree, tree.app, "completion", "Print a shell's completion script",
                          "source <(batchai completion bash)", Printing::by_itself);
    leaf->add_option("shell", options->shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    leaf->callback([&tree, options] {
        tree.action = [&tree, options]() -> Answer {
            fmt::print("{}", completion_script(tree.app, options->shell));
            return Outcome{};
        };
    });
}

void add_manual(CommandTree& tree) {
    auto options = std::make_shared<ManualOptions>();
    auto* leaf = add_leaf(tree, tree.app, "man", "Print a manual page in roff",
                          "batchai man batchai-job | man -l -", Printing::by_itself);
    leaf->add_option("page", options->page, "batchai, batchai-job, …")->required();
    leaf->group("");
    leaf->callback([&tree, options] {
        tree.action = [&tree, options]() -> Answer {
            const auto page = manual_page(tree.app, options->page, BATCHAI_VERSION);
            if (!page) return tl::unexpected(page.error());
            fmt::print("{}", *page);
            return Outcome{};
        };
    });
}

void add_file_options(CLI::App& leaf, JobFileOptions& file) {
    add_optional(leaf, "--storage-account-name", file.storage_account_name,
                 "Storage account for the file's placeholders [$AZURE_BATCHAI_STORAGE_ACCOUNT]")
        ->type_name("NAME");
    add_image_options(leaf, file);
}

}  // namespace

void add_other_verbs(CommandTree& tree) {
    {
        auto [leaf, options] =
            add_verb(tree, tree.app, "validate", "Check a job file; change nothing",
                     "batchai validate job.json\n  batchai validate --format json job.json",
                     validate, Printing::by_itself);
        leaf->add_option("file", options->file.path, "job.json; - is standard input")->required();
        leaf->add_option("--format", options->format, "text or json [text]")
            ->type_name("FORMAT")
            ->check(CLI::IsMember({"text", "json"}));
        add_file_options(*leaf, options->file);
    }
    {
        auto [leaf, options] = add_verb(
            tree, tree.app, "run", "Carry out a job's plan inside its Slurm allocation",
            "sbatch --job-json=job.json --wrap='batchai run'", run_plan, Printing::by_itself);
        add_optional(*leaf, "--plan", options->plan, "The frozen plan [$BATCHAI_PLAN]")
            ->type_name("FILE");
        add_optional(*leaf, "--digest", options->digest,
                     "SHA-256 of the plan [$BATCHAI_PLAN_DIGEST]")
            ->type_name("HEX");
        leaf->add_option("--job-json", options->file.path,
                         "Plan this file anew instead [with the two below: $BATCHAI_JOB_JSON]")
            ->type_name("FILE");
        add_image_options(*leaf, options->file);
    }
    {
        auto [leaf, options] =
            add_verb(tree, tree.app, "hand-over", "Freeze the plan of a job file for batchai.so",
                     "batchai hand-over --job-json job.json", hand_over, Printing::by_itself);
        leaf->add_option("--job-json", options->file.path, "job.json")
            ->type_name("FILE")
            ->required();
        add_optional(*leaf, "--door", options->door, "sbatch, srun or salloc")->type_name("NAME");
        add_file_options(*leaf, options->file);
        leaf->group("");
    }
    {
        auto [leaf, options] =
            add_verb(tree, tree.app, "watch-first-node",
                     "Queue an elastic job again if its first node is lost",
                     "batchai watch-first-node --slurm-job 7 --node n1 --record attempts/1.json",
                     watch_first_node, Printing::by_itself);
        leaf->add_option("--slurm-job", options->job_id, "Slurm's id of the job")->required();
        leaf->add_option("--node", options->node, "the job's first node")->required();
        leaf->add_option("--record", options->record_path, "the attempt's record")->required();
        leaf->add_option("--log", options->log_path, "gets a line when the job is queued again");
        leaf->group("");
    }
    add_verb(tree, tree.app, "version", "Show the versions of this program and of Slurm",
             "batchai version", version, Printing::by_itself);
    add_completion(tree);
    add_manual(tree);
}

}  // namespace batchai::cli

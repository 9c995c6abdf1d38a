// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/job_shell.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/report/names.hpp"
#include "cli/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "record/attempt.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::cli {
namespace {

struct JobShellOptions {
    JobWord job;
    NodeChoice place;
    std::vector<std::string> words;
};

// Returns whether the attempt that runs now has ended, as its record says. Slurm would give an
// interactive shell KillWait, usually 30 s, and the job's nodes would not be free before that.
std::function<bool()> end_of(const RunningJob& running) {
    const int number = running.attempt ? running.attempt->number : 0;
    return [files = running.files, number] {
        const auto newest = record::latest_attempt(files);
        return number > 0 && newest && *newest &&
               ((*newest)->number != number || (*newest)->end.has_value());
    };
}

Answer job_shell(const JobShellOptions& options) {
    JobWord job = options.job;
    base::Arguments words = options.words;
    // With --job, the first word is that of the command.
    if (job.named && job.word) {
        words.insert(words.begin(), *job.word);
        job.word.reset();
    }
    const auto name = TRY(job_name_of(job, "job shell"));
    const auto here = TRY(open_surroundings());
    const auto running = TRY(running_job(here.store, here.slurm, job_key(name)));
    const auto place = TRY(choose_node(running, options.place));
    say_which_node(running, options.place, place.node);
    const bool terminal =
        isatty(STDIN_FILENO) != 0 && (words.empty() || isatty(STDOUT_FILENO) != 0);
    return visit(here, running, place, {.words = std::move(words), .terminal = terminal});
}

}  // namespace

Answer visit(const Surroundings& here, const RunningJob& running, const VisitedNode& place,
             const VisitWish& wish) {
    auto arguments = run::visit_arguments({.job_id = running.job.slurm_job_id,
                                           .node = place.node,
                                           .command = wish.command,
                                           .terminal = wish.terminal,
                                           .words = wish.words});
    const auto never = [] { return false; };
    const int code =
        TRY(run_in_foreground(std::move(arguments), visit_environment(running, place.as_rank),
                              wish.terminal ? end_of(running) : never));
    if (code == 0) return Outcome{};
    const auto report = report_job(here.store, here.slurm, running.job.key);
    if (report && !is_running(*report))
        say(
            fmt::format("the job \"{}\" no longer runs, and what was started in it has ended: the "
                        "job is {}",
                        running.job.key.job, slurm::to_string(report->state)));
    return Outcome{.exit_code = code};
}

base::Result<JobName> job_name_of(const JobWord& job, const char* verb) {
    if (job.word.has_value() == job.named.has_value())
        return base::fail("name one job", fmt::format("batchai {}", verb),
                          fmt::format("batchai {} train", verb), base::ExitCode::usage);
    return JobName{.job = job.word ? *job.word : *job.named, .parents = job.parents};
}

void add_job_word(CLI::App& leaf, JobWord& job) {
    add_optional(leaf, "job", job.word, "Name of the job")->type_name("NAME");
    add_optional(leaf, "--job,-j", job.named, "Name of the job, instead of the word")
        ->type_name("NAME")
        ->group(resource_arguments);
    add_experiment_option(leaf, job.parents);
}

void add_node_choice(CLI::App& leaf, NodeChoice& choice) {
    auto* const node =
        add_optional(leaf, "--node,-n", choice.node, "Node of the job [that of rank 0]")
            ->type_name("NODE");
    add_optional(leaf, "--rank", choice.rank, "The node of this rank")
        ->type_name("RANK")
        ->check(CLI::NonNegativeNumber)
        ->excludes(node);
}

void add_job_shell_verb(CommandTree& tree, CLI::App& job) {
    auto [leaf, options] = add_verb(
        tree, job, "shell",
        "Open a shell where a running job runs: in its container, with its volumes and variables",
        "batchai job shell train\n"
        "  batchai job shell train --rank 3\n"
        "  batchai job shell train --node n2 -- nvidia-smi -L",
        job_shell, Printing::by_itself);
    add_job_word(*leaf, options->job);
    leaf->add_option("command", options->words,
                     "After --: a program and its arguments, instead of a shell; its exit code is "
                     "returned")
        ->type_name("WORD");
    add_node_choice(*leaf, options->place);
}

}  // namespace batchai::cli

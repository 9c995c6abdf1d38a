// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/job_shell.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/tree/walk.hpp"
#include "cli/verbs/named_job.hpp"
#include "record/attempt.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::cli {
namespace {

struct JobShellOptions {
    NamedJob job;
    visit::NodeChoice place;
    std::vector<std::string> words;
};

// Returns whether the attempt that runs now has ended, as its record says. Slurm would give an
// interactive shell KillWait, usually 30 s, and the job's nodes would not be free before that.
std::function<bool()> end_of(const visit::RunningJob& running) {
    const int number = running.attempt ? running.attempt->number : 0;
    return [files = running.files, number] {
        const auto newest = record::latest_attempt(files);
        return number > 0 && newest && *newest &&
               ((*newest)->number != number || (*newest)->end.has_value());
    };
}

Answer job_shell(const JobShellOptions& options) {
    NamedJob job = options.job;
    base::Arguments words = options.words;
    // With --job, the first word is that of the command.
    if (job.option && job.word) {
        words.insert(words.begin(), *job.word);
        job.word.reset();
    }
    for (std::string& word : words) {
        if (word.ends_with(literal_mark)) word.pop_back();
    }
    const auto named = TRY(key_of(job, "shell"));
    const auto here = TRY(open_context());
    const auto running = TRY(visit::running_job(here.store, here.slurm, named.key, named.task));
    const auto place = TRY(visit::choose_node(running, options.place));
    visit::say_which_node(running, options.place, place.node);
    const bool terminal =
        isatty(STDIN_FILENO) != 0 && (words.empty() || isatty(STDOUT_FILENO) != 0);
    return visit(here, running, place, {.words = std::move(words), .terminal = terminal});
}

}  // namespace

Answer visit(const Context& here, const visit::RunningJob& running, const visit::VisitedNode& place,
             const VisitWish& wish) {
    auto arguments = run::visit_arguments({.job_id = running.slurm_id,
                                           .node = place.node,
                                           .command = wish.command,
                                           .terminal = wish.terminal,
                                           .words = wish.words});
    const auto never = [] { return false; };
    const int code = TRY(visit::run_in_foreground(std::move(arguments),
                                                  visit::visit_environment(running, place.as_rank),
                                                  wish.terminal ? end_of(running) : never));
    if (code == 0) return Outcome{};
    const auto view = status::view_job(here.store, here.slurm, running.job.key, running.task);
    if (view && !visit::is_running(*view))
        say(
            fmt::format("the job \"{}\" no longer runs, and what was started in it has ended: the "
                        "job is {}",
                        running.job.key.job, slurm::to_string(view->state)));
    return Outcome{.exit_code = code};
}

void add_node_choice(Parser leaf, visit::NodeChoice& choice) {
    const Option node =
        add_optional(leaf, "--node", choice.node, "Node of the job [that of rank 0]")
            .type_name("NODE");
    add_optional(leaf, "--rank", choice.rank, "The node of this rank")
        .type_name("RANK")
        .non_negative()
        .excludes(node);
}

const Verbs job_shell_verbs("job", 90, [](CommandTree& tree, Parser job) {
    auto [leaf, options] = add_verb(
        tree, job, "shell",
        "Open a shell where a running job runs: in its container, with its volumes and variables",
        "batchai job shell train\n"
        "  batchai job shell train --rank 3\n"
        "  batchai job shell train --node n2 -- nvidia-smi -L",
        job_shell, Printing::by_itself);
    add_named_job(leaf, options->job);
    leaf.add_option("command", options->words,
                    "After --: a program and its arguments, instead of a shell; its exit code is "
                    "returned")
        .type_name("WORD");
    add_node_choice(leaf, options->place);
});

}  // namespace batchai::cli

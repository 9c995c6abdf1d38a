// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/job_logs.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/job_follow.hpp"
#include "cli/verbs/named_job.hpp"
#include "record/attempt.hpp"
#include "slurm/hostlist.hpp"
#include "status/job_progress.hpp"

namespace batchai::cli {
namespace {

struct JobLogsOptions {
    NamedJob job;
    std::optional<std::string> ranks;
    std::optional<std::string> nodes;
    std::optional<std::string> since;
    std::optional<std::size_t> tail;
    std::optional<int> attempt;
    bool follow = false;
    bool merge = false;
    bool only_output = false;
    bool only_error = false;
};

base::Result<status::LogChoice> choice_of(const JobLogsOptions& options) {
    status::LogChoice choice{.output = !options.only_error, .error = !options.only_output};
    if (options.ranks) choice.ranks = TRY(status::rank_list(*options.ranks));
    if (options.nodes) {
        auto nodes = slurm::expand_hostlist(*options.nodes);
        if (!nodes || nodes->empty())
            return base::fail(fmt::format("\"{}\" is not a list of nodes", *options.nodes),
                              "--node", "write it like n1,n3 or n[1-3]", base::ExitCode::usage);
        choice.nodes = std::move(*nodes);
    }
    if (options.since) choice.since = TRY(status::time_since(*options.since, base::now()));
    choice.tail = options.tail;
    return choice;
}

base::Error not_started(const status::JobView& view, const JobLogsOptions& options) {
    if (options.attempt)
        return {fmt::format("no rank was started in attempt {} of the job", *options.attempt),
                view.job.key.job, "`batchai job show` lists the attempts",
                base::ExitCode::not_found};
    if (view.ended())
        return {"the job has ended, and there are no logs of its ranks", view.job.key.job,
                "`batchai job show` says why it ended, and `batchai job file list` lists the files "
                "that it wrote, such as those of its preparation",
                base::ExitCode::not_found};
    return {"the ranks of the job have not started yet", view.job.key.job,
            "add --follow to wait for them", base::ExitCode::not_found};
}

// Returns false if the reader has gone away.
base::Result<bool> print_all(status::JobLogReader& reader, bool ended) {
    auto found = status::JobLogReader::Found::more;
    while (found == status::JobLogReader::Found::more)
        found = TRY(reader.pump(ended));
    return found != status::JobLogReader::Found::stopped;
}

// Prints names in front of what they have printed.
class Headings {
  public:
    // Returns false if the reader has gone away.
    bool print(const std::string& name) {
        const bool first = std::exchange(first_, false);
        return print_bytes(fmt::format("{}==> {} <==\n", first ? "" : "\n", name));
    }

  private:
    bool first_ = true;
};

// What is printed of one job, or of one task of an array job.
struct Printed {
    const LogPlace& place;
    const status::LogChoice& choice;
    const JobLogsOptions& options;
    bool ended;
    std::string task;  // in front of the ranks' names
};

// Prints the ranks one after the other, each below its name.
base::Result<void> print_each(const Printed& what, const std::map<int, std::string>& ranks,
                              Headings& headings) {
    for (const auto& [rank, node] : ranks) {
        status::LogChoice one = what.choice;
        one.ranks = {rank};
        if (!headings.print(what.task + status::name_of_rank(node, static_cast<std::size_t>(rank))))
            return {};
        status::JobLogReader reader(what.place.files, what.place.logs, std::move(one),
                                    what.options.attempt, printer_to_output(Prefixes::none));
        if (!TRY(print_all(reader, what.ended))) return {};
    }
    return {};
}

// Prints what there is. Returns false if the ranks have not been started.
base::Result<bool> print_logs(const Printed& what, Headings& headings) {
    status::JobLogReader reader(
        what.place.files, what.place.logs, what.choice, what.options.attempt,
        printer_to_output(what.options.merge ? Prefixes::always : Prefixes::none));
    const auto ranks = TRY(reader.ranks());
    if (!ranks) return false;
    const bool several = ranks->size() > 1 || !what.task.empty();
    if (!what.options.merge && several) {
        TRY(print_each(what, *ranks, headings));
        return true;
    }
    if (!what.task.empty() && !headings.print(what.task.substr(0, what.task.size() - 2)))
        return true;
    TRY(print_all(reader, what.ended));
    return true;
}

// Prints the logs of all tasks that have started, one after the other.
Answer print_tasks(const Context& here, const status::JobView& view,
                   const status::LogChoice& choice, const JobLogsOptions& options) {
    Headings headings;
    bool any = false;
    const auto begun = TRY(here.store.job_files(view.job.key).started_array_tasks());
    const std::set<int> started(begun.begin(), begun.end());
    for (const status::TaskView& task : view.tasks) {
        if (!started.contains(task.number)) continue;
        const LogPlace place = TRY(log_place(here, view.job.key, task.number));
        any = TRY(print_logs({.place = place,
                              .choice = choice,
                              .options = options,
                              .ended = task.ended(),
                              .task = fmt::format("task {}, ", task.number)},
                             headings)) ||
              any;
    }
    if (!any) return tl::unexpected(not_started(view, options));
    return Outcome{};
}

Answer print_job(const Context& here, const store::JobKey& key, const status::LogChoice& choice,
                 const JobLogsOptions& options) {
    const auto view = TRY(status::view_job(here.store, here.slurm, key, options.job.task));
    if (!view.tasks.empty()) return print_tasks(here, view, choice, options);
    const LogPlace place = TRY(log_place(here, key, options.job.task));
    Headings headings;
    const bool printed = TRY(print_logs(
        {.place = place, .choice = choice, .options = options, .ended = view.ended(), .task = {}},
        headings));
    if (!printed) return tl::unexpected(not_started(view, options));
    return Outcome{};
}

Answer follow_job(const Context& here, const LogPlace& place, const status::LogChoice& choice,
                  const JobLogsOptions& options) {
    const Interruption interruption;
    const auto key = TRY(key_of(options.job, "logs")).key;
    status::JobWatch watch(here.store, here.slurm, key, slurm_pause, options.job.task);
    status::JobLogReader reader(
        place.files, place.logs, choice, options.attempt,
        printer_to_output(options.merge ? Prefixes::always : Prefixes::several));
    status::JobProgress progress;
    const auto followed = TRY(follow_logs(watch, reader, progress));
    if (followed.stopped) return Outcome{};
    if (followed.view.ended()) return Outcome{.exit_code = status::say_end(followed.view)};
    return Outcome{.exit_code = status::say_interrupted(followed.view)};
}

Answer job_logs(const JobLogsOptions& options) {
    const auto key = TRY(key_of(options.job, "logs")).key;
    const status::LogChoice choice = TRY(choice_of(options));
    const auto here = TRY(open_context());
    if (!options.follow) return print_job(here, key, choice, options);
    return follow_job(here, TRY(log_place(here, key, options.job.task)), choice, options);
}

}  // namespace

const Verbs job_logs_verbs("job", 40, [](CommandTree& tree, Parser job) {
    auto [leaf, options] = add_verb(tree, job, "logs", "Show what a job's ranks have printed",
                                    "batchai job logs train --merge --tail 100\n"
                                    "  batchai job logs train --rank 0,3-5 --since 10m\n"
                                    "  batchai job logs train --follow",
                                    job_logs, Printing::by_itself);
    add_optional(leaf, "job-name", options->job.word, "Name of the job").type_name("NAME");
    add_optional(leaf, "--job,-j", options->job.option, "Name of the job, instead of the word")
        .type_name("NAME")
        .group(resource_arguments);
    add_experiment_option(leaf, options->job.parents);
    add_optional(leaf, "--rank", options->ranks, "Only these ranks, such as 0,3-5 [all]")
        .type_name("RANKS");
    add_optional(leaf, "--node", options->nodes, "Only the ranks on these nodes, such as n[1-3]")
        .type_name("NODES");
    const Option output =
        leaf.add_flag("--stdout", options->only_output, "Only what the ranks print on stdout");
    leaf.add_flag("--stderr", options->only_error, "Only what the ranks print on stderr")
        .excludes(output);
    add_optional(leaf, "--since", options->since,
                 "Only what was printed since a time in UTC, such as 2018-06-21T17:15:18, or since "
                 "so long ago: 90s, 10m, 2h, 1d")
        .type_name("TIME");
    add_optional(leaf, "--tail", options->tail,
                 "Only the last lines: of all ranks together with --merge, else of each rank")
        .type_name("LINES")
        .non_negative();
    leaf.add_flag("--merge", options->merge,
                  "All ranks together in the order of time, with \"host:rank \" before each line");
    leaf.add_flag(
        "--follow,-f", options->follow,
        "Go on until the job ends, and exit with its exit code; several ranks are merged");
    add_optional(leaf, "--attempt", options->attempt,
                 "The attempt of a job that was requeued [the newest]")
        .type_name("NUMBER")
        .positive();
    add_task_option(leaf, options->job.task, "One task of an array job [all that have started]");
});

}  // namespace batchai::cli

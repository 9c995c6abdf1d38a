// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/parallel.hpp"
#include "cli/output/output.hpp"
#include "cli/report/job_report.hpp"
#include "cli/report/job_watch.hpp"
#include "cli/report/names.hpp"
#include "cli/report/planning.hpp"
#include "cli/report/resource_report.hpp"
#include "cli/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/surroundings.hpp"
#include "slurm/pending_reason.hpp"

namespace batchai::cli {
namespace {

struct JobOptions {
    JobName job;
    bool yes = false;
    bool no_wait = false;
    int interval = 15;  // longest time between two queries to Slurm, in seconds
};

// Asks for confirmation and cancels the job. Returns the job.
base::Result<store::Job> stop(const Surroundings& here, const JobOptions& options) {
    auto job = TRY(here.store.job(job_key(options.job)));
    const auto agreed = TRY(confirm(options.yes));
    if (!agreed) return base::fail("operation cancelled");
    TRY(stop_jobs(here.store, here.slurm, {job}, !options.no_wait));
    return job;
}

Answer job_show(const JobOptions& options) {
    const auto here = TRY(open_surroundings());
    const auto report = TRY(report_job(here.store, here.slurm, job_key(options.job)));
    Value value = to_value(report);
    value.set("attempts", TRY(attempts_value(here.store, report)));
    return Outcome{std::move(value), job_columns};
}

Answer job_list(const ParentOptions& parents) {
    const auto here = TRY(open_surroundings());
    const auto reports = report_jobs_of(here.store, here.slurm, experiment_key(parents));
    if (!reports && nothing_yet(reports.error(), parents))
        return Outcome{Value::Array{}, job_columns};
    if (!reports) return tl::unexpected(reports.error());
    Value::Array values(reports->size());
    base::in_parallel(values.size(), [&](std::size_t i) { values[i] = to_value((*reports)[i]); });
    return Outcome{std::move(values), job_columns};
}

Answer job_terminate(const JobOptions& options) {
    const auto here = TRY(open_surroundings());
    TRY(stop(here, options));
    return Outcome{};
}

Answer job_delete(const JobOptions& options) {
    const auto here = TRY(open_surroundings());
    TRY(stop(here, options));
    TRY(here.store.remove(job_key(options.job)));
    return Outcome{};
}

using slurm::ExecutionState;

constexpr int unknown_exit_code = 255;
constexpr int interrupted_exit_code = 130;

// Prints the progress of a job. It remembers what it has printed, so that each change is printed
// once.
class Reporter {
  public:
    void look(const JobReport& report) {
        if (!said_submission_) {
            said_submission_ = true;
            fmt::print(stderr, "Job submitted at {}\n", python_time(report.job.creation_time));
        }
        if (!said_start_ && report.state != ExecutionState::queued && report.start()) {
            said_start_ = true;
            fmt::print(stderr, "Job started execution at {}\n", python_time(*report.start()));
        }
        if (!state_ || *state_ != report.state) {
            state_ = report.state;
            fmt::print(stderr, "Job state: {}\n", slurm::to_string(report.state));
        }
        say_reason(report);
    }

  private:
    void say_reason(const JobReport& report) {
        if (report.state != ExecutionState::queued || !report.evidence.slurm) return;
        const auto words = slurm::pending_reason_in_words(report.evidence.slurm->reason);
        if (words.sentence == reason_) return;
        reason_ = words.sentence;
        fmt::print(stderr, "The job is waiting: {}\n", words.sentence);
        if (!words.advice.empty()) fmt::print(stderr, "  {}\n", words.advice);
    }

    bool said_submission_ = false;
    bool said_start_ = false;
    std::optional<ExecutionState> state_;
    std::string reason_;
};

int say_end(const JobReport& report) {
    const auto start = report.start();
    const auto end = report.end();
    const auto at = end ? python_time(*end) : "an unknown time";
    const auto took = start && end ? python_duration(*end - *start) : "an unknown time";
    if (report.state == ExecutionState::succeeded) {
        fmt::print(stderr, "Job completed at {}; execution took {}\n", at, took);
        return report.exit_code().value_or(0);
    }
    fmt::print(stderr, "The job \"{}\" in resource group \"{}\" failed.\n", report.job.key.job,
               report.job.key.group);
    const auto code = report.exit_code();
    if (code) {
        fmt::print(stderr, "Job failed with exit code {} at {}; execution took {}\n", *code, at,
                   took);
    }
    fmt::print(stderr, "{}", error_lines(job_errors(report)));
    // Exit code 0 would tell a script that the job succeeded.
    return code && *code != 0 ? *code : unknown_exit_code;
}

// Waits until the job has ended and exits with the job's exit code.
Answer job_wait(const JobOptions& options) {
    const auto here = TRY(open_surroundings());
    const Interruption interruption;
    JobWatch watch(here.store, here.slurm, job_key(options.job),
                   std::chrono::seconds(options.interval));
    Reporter reporter;
    while (true) {
        const auto report = TRY(watch.look());
        reporter.look(report);
        if (report.ended()) return Outcome{.exit_code = say_end(report)};
        Interruption::sleep(std::chrono::milliseconds(500));
        if (Interruption::requested()) {
            say(fmt::format("interrupted; the job continues ({})", slurm::to_string(report.state)));
            return Outcome{.exit_code = interrupted_exit_code};
        }
    }
}

// Names of the option that names the job of a verb of "job" itself.
constexpr const char* name_option = "--name,-n";

}  // namespace

void add_job_verbs(CommandTree& tree) {
    auto& group = *add_group(tree.app, "job", "Submit and follow jobs");
    const std::string example = "batchai job ";
    add_job_create_verb(tree, group);
    {
        auto [leaf, options] =
            add_verb(tree, group, "show", "Show a job",
                     example + "show --name train --query executionState", job_show);
        add_job_options(*leaf, options->job, name_option);
    }
    {
        auto [leaf, parents] = add_verb(tree, group, "list", "List the jobs of an experiment",
                                        example + "list --output table", job_list);
        add_experiment_option(*leaf, *parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "wait", "Wait until a job has ended; exit with its exit code",
                     example + "wait --name train", job_wait, Printing::by_itself);
        add_job_options(*leaf, options->job, name_option);
        leaf->add_option("--interval", options->interval,
                         "Longest interval between two queries to Slurm [15]")
            ->type_name("SECONDS")
            ->check(CLI::Range(1, 3600));
    }
    {
        auto [leaf, options] = add_verb(tree, group, "terminate", "Stop a job; its record stays",
                                        example + "terminate --name train --yes", job_terminate);
        add_job_options(*leaf, options->job, name_option);
        add_yes_options(*leaf, options->yes, options->no_wait);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete",
                     "Delete a job, after stopping it if it runs; its output files stay",
                     example + "delete --name train --yes", job_delete);
        add_job_options(*leaf, options->job, name_option);
        add_yes_options(*leaf, options->yes, options->no_wait);
    }
    add_job_file_verbs(tree, group);
    add_job_node_verbs(tree, group);
}

}  // namespace batchai::cli

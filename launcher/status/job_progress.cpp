// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/job_progress.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/standard_error.hpp"
#include "base/utf8.hpp"
#include "cli/output/terminal.hpp"
#include "slurm/pending_reason.hpp"

namespace batchai::status {

namespace {

using slurm::ExecutionState;
using std::chrono::milliseconds;

constexpr milliseconds shortest_pause(200);
constexpr milliseconds longest_pause(1000);

constexpr int unknown_exit_code = 255;
constexpr int interrupted_exit_code = 130;

}  // namespace

base::Result<Followed> follow(JobWatch& watch,
                              const std::function<base::Result<Step>(const JobView&)>& step) {
    auto pause = shortest_pause;
    while (true) {
        auto view = TRY(watch.look());
        const Step found = TRY(step(view));
        // Ctrl-C may have been the reason to stop.
        const bool stop = found == Step::stop && !cli::Interruption::requested();
        if (found == Step::more && !cli::Interruption::requested()) continue;
        if (stop || cli::Interruption::requested() || view.ended())
            return Followed{.view = std::move(view), .stopped = stop};
        pause = found == Step::something_new ? shortest_pause : std::min(pause * 2, longest_pause);
        cli::Interruption::sleep(pause);
        if (cli::Interruption::requested()) return Followed{.view = std::move(view)};
    }
}

void JobProgress::look(const JobView& view) {
    if (!said_submission_) {
        said_submission_ = true;
        base::print_error("Job submitted at {}\n", python_time(view.job.creation_time));
    }
    if (!said_start_ && view.state != ExecutionState::queued && view.start()) {
        said_start_ = true;
        base::print_error("Job started execution at {}\n", python_time(*view.start()));
    }
    if (!state_ || *state_ != view.state) {
        state_ = view.state;
        base::print_error("Job state: {}\n", slurm::to_string(view.state));
    }
    say_reason(view);
    say_suspension(view);
    say_alarms(view);
}

void JobProgress::say_alarms(const JobView& view) {
    if (!view.attempt) return;
    if (std::exchange(attempt_, view.attempt->number) != view.attempt->number) said_alarms_ = 0;
    const auto& alarms = view.attempt->alarms;
    for (; said_alarms_ < alarms.size(); ++said_alarms_)
        cli::warn(record::sentence_of(alarms[said_alarms_]));
}

void JobProgress::say_reason(const JobView& view) {
    if (view.state != ExecutionState::queued || !view.evidence.slurm) return;
    const auto words = slurm::pending_reason_in_words(view.evidence.slurm->reason);
    if (words.sentence == reason_) return;
    reason_ = words.sentence;
    base::print_error("The job is waiting: {}\n", words.sentence);
    if (!words.advice.empty()) base::print_error("  {}\n", words.advice);
}

void JobProgress::say_suspension(const JobView& view) {
    const bool before = std::exchange(suspended_, view.suspended());
    if (before == suspended_ || view.state != ExecutionState::running) return;
    base::print_error(
        "{}\n", suspended_ ? "The job is suspended: Slurm lets it go on later" : "The job goes on");
}

int say_end(const JobView& view) {
    if (view.attempt) {
        for (const std::string& warning : view.attempt->warnings)
            cli::warn(warning);
    }
    const auto start = view.start();
    const auto end = view.end();
    const auto at = end ? python_time(*end) : "an unknown time";
    const auto took = start && end ? python_duration(*end - *start) : "an unknown time";
    if (view.state == ExecutionState::succeeded) {
        base::print_error("Job completed at {}; execution took {}\n", at, took);
        return view.exit_code().value_or(0);
    }
    base::print_error("The job \"{}\" in resource group \"{}\" failed.\n", view.job.key.job,
                      view.job.key.group);
    const auto code = view.exit_code();
    if (code) {
        base::print_error("Job failed with exit code {} at {}; execution took {}\n", *code, at,
                          took);
    }
    base::print_error("{}", base::printable_lines(error_lines(job_errors(view))));
    // Exit code 0 would tell a script that the job succeeded.
    return code && *code != 0 ? *code : unknown_exit_code;
}

int say_interrupted(const JobView& view) {
    cli::say(fmt::format("interrupted; the job continues ({})", slurm::to_string(view.state)));
    return interrupted_exit_code;
}

}  // namespace batchai::status

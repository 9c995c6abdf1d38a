// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>

#include <fmt/format.h>

#include "cli/report/job_watch.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs/job.hpp"
#include "cli/verbs/surroundings.hpp"
#include "slurm/pending_reason.hpp"

namespace batchai::cli {
namespace {

using slurm::ExecutionState;

constexpr int unknown_exit_code = 255;
constexpr int interrupted_exit_code = 130;

// What has been said, so that each thing is said once.
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
        fmt::print(stderr, "The job waits: {}\n", words.sentence);
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
    // 0 would tell a script that all is well.
    return code && *code != 0 ? *code : unknown_exit_code;
}

}  // namespace

Answer job_wait(const JobOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const Interruption interruption;
    JobWatch watch(here->store, here->slurm, options.key(), std::chrono::seconds(options.interval));
    Reporter reporter;
    while (true) {
        const auto report = watch.look();
        if (!report) return tl::unexpected(report.error());
        reporter.look(*report);
        if (report->ended()) return Outcome{{}, {}, say_end(*report)};
        Interruption::sleep(std::chrono::milliseconds(500));
        if (Interruption::requested()) {
            say(fmt::format("interrupted; the job goes on ({})", slurm::to_string(report->state)));
            return Outcome{{}, {}, interrupted_exit_code};
        }
    }
}

}  // namespace batchai::cli

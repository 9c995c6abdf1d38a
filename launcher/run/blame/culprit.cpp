// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/culprit.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "record/task_reports.hpp"

namespace batchai::run {

namespace {

using base::split;

std::string line_about(int task, const TaskWords& words) {
    if (const auto refusal = record::refusal(words.refusals, task))
        return presentable(split(*refusal, '\n').front());
    const auto index = static_cast<std::size_t>(task);
    if (task < 0 || index >= words.error_files.size()) return {};
    return first_error_line(base::read_file(words.error_files[index]).value_or(""),
                            words.outlive_losses);
}

// Counts the failed ranks with and without a usable report, for Culprit::evidence.
class Evidence {
  public:
    void add(int task, const base::Result<record::RankFailure>& failure) {
        if (failure) {
            ++reported_;
            return;
        }
        ++guessed_;
        // A program without libmpi_bridge writes no report, so a damaged report is more worth a
        // mention than a missing one.
        const bool is_missing = failure.error().exit_code == base::ExitCode::not_found;
        if (!first_without_.empty() && (is_missing || !first_is_missing_)) return;
        first_is_missing_ = is_missing;
        first_without_ = fmt::format("rank {} has no report that can be used: {}", task,
                                     failure.error().where + ": " + failure.error().what);
    }
    [[nodiscard]] std::string text() const {
        if (guessed_ == 0)
            return "which rank is to blame follows from the reports of libmpi_bridge";
        if (reported_ == 0)
            return "which rank is to blame is guessed from standard error, because " +
                   first_without_;
        return fmt::format(
            "which rank is to blame follows from the reports of libmpi_bridge where there is one "
            "({} of {} failed ranks) and is else guessed from standard error, because {}",
            reported_, reported_ + guessed_, first_without_);
    }

  private:
    int reported_ = 0;
    int guessed_ = 0;
    std::string first_without_;
    bool first_is_missing_ = false;
};

}  // namespace

std::optional<Culprit> culprit(const std::vector<TaskEnd>& ends, const TaskWords& words) {
    using Cause = record::RankFailureCause;
    const bool has_ranks = !words.rank_failures.empty();
    std::optional<Culprit> best;
    int best_weight = 0;
    Evidence evidence;
    for (TaskEnd end : ends) {
        const auto failure =
            has_ranks ? record::rank_failure(words.rank_failures, end.task)
                      : base::Result<record::RankFailure>(base::fail("the step has no ranks"));
        if (end.victim) {
            if (!failure || failure->cause != Cause::aborted) continue;
            end.signal.reset();
            end.exit_code.reset();
        }
        evidence.add(end.task, failure);
        std::string line = line_about(end.task, words);
        const bool follows =
            failure ? failure->cause == Cause::peer_lost : tells_of_a_broken_connection(line);
        int weight = end.signal ? 3 : (follows ? 1 : 2);
        // Slurm has terminated others for a rank that aborted the step, and told their ends first.
        const bool aborted = failure && failure->cause == Cause::aborted && !end.signal &&
                             !tells_of_a_lost_rank(failure->text) &&
                             !tells_of_a_broken_connection(line);
        if (aborted && best && best->end.signal == SIGTERM) weight = 4;
        if (weight <= best_weight) continue;
        best_weight = weight;
        best = Culprit{.end = end, .line = std::move(line), .follows = follows};
    }
    if (best && has_ranks) best->evidence = evidence.text();
    return best;
}

int exit_code_of(const TaskEnd& end, int otherwise) {
    if (end.exit_code) return *end.exit_code;
    if (end.signal) return 128 + *end.signal;
    return otherwise;
}

namespace {

// Looks at the end of each file, because slurmstepd's notice is among the last lines of a task.
std::optional<MemoryNotice> memory_notice_in(const TaskWords& words) {
    constexpr std::size_t most = 64UL << 10U;
    for (const std::string& path : words.error_files) {
        const base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        if (auto notice = memory_notice(base::end_of_file(file, 0, most), words.job_id))
            return notice;
    }
    return std::nullopt;
}

}  // namespace

void name_full_disk(record::Failure& failure, const std::string& no_room) {
    if (no_room.empty()) return;
    std::string& line = failure.first_error_line;
    if (!line.empty()) line += "; ";
    line += "there is no room for output: " + no_room;
}

Blame blame(record::Failure& failure, int step_code, std::string_view srun_messages,
            const TaskWords& words) {
    failure.exit_code = step_code;
    if (const auto notice = memory_notice_in(words)) {
        failure.node = notice->node;
        failure.first_error_line = presentable(notice->line);
        return {.exit_code = step_code, .evidence = {}, .for_memory = true};
    }
    const auto found = culprit(bad_ends(srun_messages), words);
    if (!found) return {.exit_code = step_code, .evidence = {}};
    const TaskEnd& end = found->end;
    const int exit_code = exit_code_of(end, step_code);
    failure.node = end.node;
    failure.rank = end.task;
    failure.signal = end.signal;
    failure.exit_code = exit_code;
    failure.first_error_line = found->line;
    return {.exit_code = exit_code, .evidence = found->evidence, .knows_cause = !found->follows};
}

}  // namespace batchai::run

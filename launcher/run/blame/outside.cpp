// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/outside.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "node/volumes/volumes.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"
#include "record/last_words.hpp"
#include "record/node_notes.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/slurm_words.hpp"
#include "run/context.hpp"
#include "slurm/client.hpp"

namespace batchai::run {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Time for the nodes to say how long they will go on storing data. They say so before the step
// ends, unless their part of the step was killed.
constexpr seconds to_say_until{2};
// Added to the time that a node has named, because clocks differ and file systems cache.
constexpr seconds grace{20};
// Once the job is being ended, only KillWait, usually 30 s, is left of it.
constexpr seconds blame_answer_deadline{3};

}  // namespace

std::optional<int> wait_until_stored(const Context& context) {
    if (!node::has_remote_mounts(context.plan)) return std::nullopt;
    const record::JobFiles files = context.files();
    const auto begin = base::now();
    milliseconds pause{20};
    while (true) {
        if (const auto signal = context.steps.stopped_by()) return signal;
        bool storing = false;
        for (const record::StorageNote& note :
             record::storage_notes(files, context.granted.job_id)) {
            const auto now = base::now();
            if (!note.until) {
                // The note may also be that of a step that somebody else started in the job.
                storing = storing || now < begin + to_say_until;
            } else if (now < *note.until + grace) {
                storing = true;
            } else {
                record::end_storage_note(
                    files, note,
                    {.code = record::data_not_written,
                     .text = "the process that stores what the job wrote does not answer; "
                             "the clean-up after the job saves the data that has not "
                             "reached the storage",
                     .node = note.node});
            }
        }
        if (!storing) return std::nullopt;
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, milliseconds(500));
    }
}

void leave_last_words(const slurm::Client& slurm, const record::Attempt& attempt,
                      const std::string& id_in_commands) {
    const auto left = slurm::JobId::parse(id_in_commands).and_then([&](const slurm::JobId& job) {
        return slurm.edit_comment(job, [&](std::string_view comment) {
            return record::comment_with_end(comment, attempt);
        });
    });
    if (!left)
        std::fprintf(stderr, "batchai: warning: the end of the job is not recorded: %s\n",
                     left.error().text().c_str());
}

void record_failed_start(const std::string& plan_path, const base::Error& error,
                         const slurm::ThisJob& job, int attempts_before) {
    record::JobFiles files(std::filesystem::path(plan_path).parent_path());
    if (job.array_task) files = files.array_task(*job.array_task);
    if (files.directory().empty() ||
        !base::check_own_directory(std::filesystem::path(plan_path).parent_path().string()))
        return;
    record::Attempt attempt;
    attempt.number = attempts_before + job.restart + 1;
    attempt.slurm_job_id = job.job_id;
    attempt.nodes = job.nodes;
    attempt.start = base::now();
    attempt.end = attempt.start;
    attempt.exit_code = static_cast<int>(error.exit_code);
    attempt.ended_by = record::EndedBy::start;
    base::Error one_line = error;
    one_line.hint.clear();
    attempt.failure =
        record::Failure{.code = "JobFailed",
                        .message = std::string(record::words_of(record::EndedBy::start).message),
                        .phase = "start",
                        .node = attempt.nodes.empty() ? "" : attempt.nodes.front(),
                        .first_error_line = one_line.text()};
    const auto written = base::make_directories(files.attempts(), 0700).and_then([&] {
        return base::write_atomically(files.attempt(attempt.number), to_json(attempt));
    });
    if (written) return;
    std::fprintf(stderr, "batchai: warning: %s\n", written.error().text().c_str());
    leave_last_words(slurm::Client(blame_answer_deadline), attempt, job.id_in_commands());
}

namespace {

using record::EndedBy;

// Batch AI's exit code for a job that did not get to run.
constexpr int no_exit_code = -1;
constexpr std::string_view container_failed = "FailedStartingContainer";
constexpr std::size_t most_notices = 256UL << 10U;

std::string_view sentence_for(std::string_view code) {
    if (code == "AZFMountError") return "Unable to mount Azure File";
    if (code == "BFSMountError") return "unable to mount blob fuse file system";
    if (code == container_failed) return "unable to start docker container";
    if (code == record::data_not_written) return record::data_not_written_message;
    return "Unable to mount a file system";
}

// Returns the end of our standard error, from byte `from` on, if standard error is a file.
std::string standard_error_from(std::size_t from) {
    const base::FileDescriptor file(open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    return base::end_of_file(file, from, most_notices);
}

// Returns whether the step ended in the way a killed step does.
bool looks_killed(const StepResult& result) {
    if (result.stopped_by) return true;
    for (const int signal : {SIGTERM, SIGKILL})
        if (result.exit_code == 128 + signal) return true;
    const auto ends = bad_ends(result.messages);
    return std::any_of(ends.begin(), ends.end(), [](const TaskEnd& end) {
        const int code = exit_code_of(end, 0);
        return end.victim || code == 128 + SIGTERM || code == 128 + SIGKILL;
    });
}

}  // namespace

SlurmsWord::SlurmsWord(std::string job_id, int restart, std::size_t previous_begin)
    : job_id_(std::move(job_id)), restart_(restart) {
    struct stat status {};
    if (fstat(STDERR_FILENO, &status) != 0 || !S_ISREG(status.st_mode)) return;
    read_ = static_cast<std::size_t>(status.st_size);
    if (restart_ > 0 && previous_begin <= read_)
        earlier_ = end_of_job(standard_error_from(previous_begin), job_id_);
}

bool SlurmsWord::user_ends_job() {
    return end_of_job(said_since(), job_id_) == EndedBy::user;
}

std::string SlurmsWord::said_since() const {
    return standard_error_from(read_);
}

std::optional<EndedBy> SlurmsWord::why_job_ends() {
    if (const auto by = end_of_job(said_since(), job_id_)) return by;
    const auto jobs = slurm::Client(blame_answer_deadline).jobs({job_id_});
    if (!jobs) return std::nullopt;
    const auto job = jobs->find(job_id_);
    if (job == jobs->end()) return std::nullopt;
    // A job that gets fewer nodes is resizing for a moment. Slurm ends tasks then, but not the job.
    const slurm::JobState state = job->second.state;
    if (state == slurm::JobState::running || state == slurm::JobState::resizing)
        return std::nullopt;
    // Once the controller has begun to end the job, slurmstepd's notice is on its way.
    constexpr int looks = 5;
    for (int look = 0; look < looks; ++look) {
        if (const auto by = end_of_job(said_since(), job_id_)) return by;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (job->second.reason == "TimeLimit") return EndedBy::time_limit;
    if (job->second.restart_count > restart_) return EndedBy::requeue;
    return EndedBy::user;
}

std::optional<Ending> ended_from_outside(const Context& context, const StepResult& result,
                                         std::string_view phase) {
    if (result.exit_code == 0 || !looks_killed(result)) return std::nullopt;
    auto by = context.outside.why_job_ends();
    if (!by && result.stopped_by) by = EndedBy::user;
    if (!by) return std::nullopt;
    const record::EndWords words = record::words_of(*by);
    const int signal = result.stopped_by.value_or(SIGTERM);
    return Ending{.failure = {.code = std::string(words.code),
                              .message = std::string(words.message),
                              .phase = std::string(phase),
                              .signal = signal},
                  .by = *by,
                  .exit_code = 128 + signal};
}

std::optional<Ending> lost_a_node(const StepResult& result, std::string_view phase) {
    std::vector<std::string> lost = failed_nodes(result.messages);
    if (lost.empty()) return std::nullopt;
    const record::EndWords words = record::words_of(EndedBy::node);
    const std::string first = lost.front();
    lost.erase(lost.begin());
    return Ending{.failure = {.code = std::string(words.code),
                              .message = std::string(words.message),
                              .phase = std::string(phase),
                              .node = first,
                              .exit_code = result.exit_code},
                  .by = EndedBy::node,
                  .exit_code = result.exit_code,
                  .more_bad_nodes = std::move(lost),
                  .of_node = true};
}

std::string start_failure_line(const std::vector<NotStarted>& missing, const TasksOfStep& tasks) {
    const NotStarted& first = missing.front();
    std::string line(tasks.task);
    if (first.task >= 0 && !tasks.on_each_node) line += fmt::format(" {}", first.task);
    if (!first.node.empty()) line += " on " + first.node;
    line += " did not start: " + first.reason;
    if (missing.size() > 1) line += fmt::format(" (nor did {} others)", missing.size() - 1);
    return line;
}

void log_unconfirmed_starts(const Context& context, const StepResult& result,
                            const TasksOfStep& tasks) {
    if (result.unconfirmed.empty()) return;
    context.log.master(fmt::format(
        "the start of {} {}{} is not confirmed, perhaps because there was no room in {}; but its "
        "output file is there, and Slurm says that it has ended well",
        tasks.task, result.unconfirmed.front(),
        result.unconfirmed.size() > 1
            ? fmt::format(" (and {} others)", result.unconfirmed.size() - 1)
            : std::string(),
        context.files().attempts().string()));
}

std::optional<Ending> start_failure(const StepResult& result, const TasksOfStep& tasks,
                                    std::string_view phase) {
    if (result.not_started.empty()) return std::nullopt;
    const NotStarted& first = result.not_started.front();
    const record::EndWords words = record::words_of(EndedBy::start);
    record::Failure failure{.code = std::string(words.code),
                            .message = std::string(words.message),
                            .phase = std::string(phase),
                            .node = first.node,
                            .first_error_line = start_failure_line(result.not_started, tasks)};
    if (first.task >= 0 && !tasks.on_each_node) failure.rank = first.task;
    const bool knows_node = !failure.node.empty();
    std::vector<std::string> others;
    for (const NotStarted& one : result.not_started) {
        if (!one.node.empty() && one.node != first.node) others.push_back(one.node);
    }
    Ending ending{.failure = std::move(failure),
                  .by = EndedBy::start,
                  .more_bad_nodes = std::move(others),
                  .of_node = knows_node};
    std::fprintf(stderr, "batchai: %s\n", sentence_of(ending).c_str());
    return ending;
}

void expect_node_failures(const Context& context) {
    record::forget_failure_notes(context.files());
}

std::optional<Ending> node_failure(const Context& context, std::string_view phase, bool ended_well,
                                   std::optional<int> stopped_by) {
    if (!stopped_by) {
        if (const auto signal = wait_until_stored(context))
            return ended_from_outside(context, {.exit_code = 128 + *signal, .stopped_by = signal},
                                      phase);
    }
    const auto notes = record::failure_notes(context.files());
    const auto nodes = context.ready_nodes();
    const auto counts = [&](const auto& candidate) {
        return std::find(nodes.begin(), nodes.end(), candidate.node) != nodes.end() &&
               (!ended_well || candidate.code == record::data_not_written);
    };
    const auto note = std::find_if(notes.begin(), notes.end(), counts);
    if (note == notes.end()) return std::nullopt;
    std::vector<std::string> others;
    for (auto other = std::next(note); other != notes.end(); ++other) {
        if (counts(*other) && other->node != note->node) others.push_back(other->node);
    }
    std::fprintf(stderr, "batchai: node %s: %s\n", note->node.c_str(), note->text.c_str());
    return Ending{.failure = {.code = note->code,
                              .message = std::string(sentence_for(note->code)),
                              .phase = std::string(phase),
                              .node = note->node,
                              .exit_code = no_exit_code,
                              // The hint is on the lines after the first.
                              .first_error_line = note->text.substr(0, note->text.find('\n'))},
                  .by = note->code == container_failed ? EndedBy::start : EndedBy::storage,
                  .exit_code = no_exit_code,
                  .more_bad_nodes = std::move(others),
                  .of_node = note->code != record::data_not_written};
}

}  // namespace batchai::run

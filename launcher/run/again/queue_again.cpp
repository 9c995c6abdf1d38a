// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/queue_again.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.hpp"
#include "plan/retry.hpp"
#include "run/again/hosts.hpp"
#include "store/records.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;
using record::RetryCount;

// How often Slurm is asked to queue the job, and the pause between two requests. A controller that
// does not answer is probably being restarted.
struct Patience {
    int tries;
    std::chrono::seconds pause;
};
constexpr Patience with_a_refusal{.tries = 3, .pause = std::chrono::seconds(1)};
constexpr Patience with_silence{.tries = 60, .pause = std::chrono::seconds(5)};

// While the job is being ended, KillWait, usually 30 s, is left for this and for Slurm's answers.
constexpr std::chrono::seconds progress_deadline{5};

// How long Slurm may take to end what is left of an attempt.
constexpr std::chrono::minutes longest_completion{2};

// Returns when an attempt had ended, or at least had been given up; nothing if it was cut off
// before, or by the loss of a node, which Slurm may notice later than `batchai run`.
std::optional<base::Time> known_end(const record::Attempt& attempt) {
    if (attempt.end) return attempt.end;
    if (!attempt.retried || attempt.ended_by == EndedBy::node || attempt.phases.empty()) return {};
    return attempt.phases.back().end.value_or(attempt.phases.back().start);
}

constexpr const char* ended_by_user = "its user has ended it";

std::string not_again(const std::string& why) {
    return "the job is not run again: " + why;
}

}  // namespace

void QueueAgain::say(const std::string& line) const {
    context_.log.master(line);
    std::fprintf(stderr, "batchai: %s\n", line.c_str());
}

bool QueueAgain::user_has_ended_job() const {
    if (context_.outside.user_ends_job()) return true;
    // A job that was submitted with sbatch has no record in the store. The tasks of an array have
    // that of the array.
    const auto path = record::JobFiles(context_.plan.directories.plan_directory).record();
    const auto text = base::read_file(path);
    if (!text) return false;
    const plan::Identity& identity = context_.plan.identity;
    const auto job = store::from_json<store::Job>(
        *text, path.string(),
        {identity.resource_group, identity.workspace, identity.experiment, identity.job});
    return job && job->termination_requested;
}

std::string QueueAgain::progress() const {
    const std::string& directory = context_.plan.retry->progress_directory;
    std::string found = looked_at([&] { return progress_in(directory); }, progress_deadline);
    if (found.empty())
        say("nobody can tell whether the job makes progress, because " + directory +
            " cannot be read, holds too many files or does not answer");
    return found;
}

std::optional<std::string> QueueAgain::count(const AttemptEnd& end, int next_attempt) {
    const plan::Retry& retry = *context_.plan.retry;
    const record::JobFiles files = context_.files();
    auto found = record::read_retry_count(files);
    if (!found)
        return fmt::format("the count of its attempts cannot be read: {}", found.error().text());
    // Without a count, each requeue that Slurm knows of counts.
    RetryCount now = found->value_or(RetryCount{.retries = std::max(0, next_attempt - 2)});
    std::string seen;
    if (!retry.progress_directory.empty()) {
        seen = progress();
        const bool none = !seen.empty() && seen == now.progress;
        now.without_progress = none ? now.without_progress + 1 : 0;
    }
    if (auto why = why_not_again(retry, end, now)) return why;
    const auto written = record::write_retry_count(files, counted(now, next_attempt, seen));
    if (!written)
        return fmt::format("the count of its attempts cannot be written: {}",
                           written.error().text());
    return std::nullopt;
}

bool QueueAgain::may_run_again(const Ending& ending) const {
    const auto& retry = context_.plan.retry;
    return retry && retry->in_allocation &&
           wants(*retry, {.by = ending.by, .exit_code = ending.exit_code});
}

bool QueueAgain::may_run_here(const Ending& ending, const slurm::JobStatus& job) const {
    if (!may_run_again(ending)) return false;
    const bool has_spares = context_.plan.allocation.spare_nodes > 0;
    if (context_.plan.retry->exclude_failed_nodes && !ending.failure.node.empty() && !has_spares)
        return false;
    // A pre-emption's grace time may have begun.
    return leaves_time(job.start, job.end, base::now()) && cause_of(ending) == ending.by;
}

std::optional<int> QueueAgain::count_here(const Ending& ending) {
    if (user_has_ended_job()) return std::nullopt;
    const auto before = record::read_retry_count(context_.files());
    // decide() says why not.
    if (count({.by = ending.by, .exit_code = ending.exit_code}, context_.attempt()))
        return std::nullopt;
    before_retry_here_ = before ? *before : std::nullopt;
    return retries();
}

int QueueAgain::retries() const {
    const auto counted = record::read_retry_count(context_.files());
    return counted && *counted ? (*counted)->retries : context_.attempt();
}

void QueueAgain::take_back_retry() {
    if (const auto before = std::exchange(before_retry_here_, std::nullopt)) write(*before);
}

void QueueAgain::write(const RetryCount& count) const {
    if (const auto written = record::write_retry_count(context_.files(), count); !written)
        say("the count of the job's attempts cannot be written: " + written.error().text());
}

Ending QueueAgain::refusal(EndedBy by, const std::string& why) {
    const std::string line = not_again(why);
    say(line);
    decided_ = true;
    return {.failure = {.code = std::string(record::words_of(by).code),
                        .message = std::string(record::words_of(by).message),
                        .phase = "start",
                        .first_error_line = line},
            .by = by};
}

bool QueueAgain::is_queued_by_hand(const record::Attempt& earlier) const {
    auto end = known_end(earlier);
    if (!end) return false;
    // Slurm itself requeues a job only after these ends, once nothing of it is left.
    if (earlier.ended_by == EndedBy::preemption || earlier.ended_by == EndedBy::node)
        *end += longest_completion;
    const std::string& id = context_.granted.job_id;
    const auto jobs = client_.jobs({id});
    const auto job = jobs ? jobs->find(id) : slurm::Jobs::const_iterator();
    // Slurm's times are whole seconds.
    return jobs && job != jobs->end() && job->second.submit &&
           *job->second.submit >= std::chrono::floor<std::chrono::seconds>(*end);
}

std::optional<Ending> QueueAgain::without_record(bool has_count) {
    const int attempt = context_.attempt();
    const int most = context_.plan.retry->max;
    // Slurm could not start that attempt. It limits itself how often it tries (MaxBatchRequeue).
    if (has_count) return std::nullopt;
    if (attempt - 1 > most)
        return refusal(EndedBy::node, fmt::format("it has been started {} times, and "
                                                  "\"retry.max\" is {}",
                                                  attempt - 1, most));
    write({.attempt = attempt, .retries = attempt - 1});
    return std::nullopt;
}

std::optional<Ending> QueueAgain::judged(const record::Attempt& earlier, bool has_count) {
    if (is_queued_by_hand(earlier)) return std::nullopt;
    const AttemptEnd end{.by = earlier.ended_by.value_or(EndedBy::node),
                         .exit_code = earlier.exit_code.value_or(1)};
    // Somebody has put the job back into the queue while it ran.
    if (end.by == EndedBy::requeue && has_count) return std::nullopt;
    const auto why = count(end, context_.attempt());
    if (!why) return std::nullopt;
    if (end.exit_code == 0) {
        Ending success = refusal(end.by, "its last attempt has ended with exit code 0");
        success.of_success = true;
        return success;
    }
    return refusal(end.by, why->empty() ? fmt::format("\"retry.on\" does not name what ended its "
                                                      "last attempt ({})",
                                                      base::word_of(end.by))
                                        : *why);
}

std::optional<Ending> QueueAgain::why_not_run() {
    if (!context_.plan.retry) return std::nullopt;
    const record::JobFiles files = context_.files();
    const int attempt = context_.attempt();
    if (attempt == 1) {
        const bool looks = !context_.plan.retry->progress_directory.empty();
        write({.progress = looks ? progress() : std::string()});
        return std::nullopt;
    }
    if (user_has_ended_job()) return refusal(EndedBy::user, ended_by_user);
    const auto found = record::read_retry_count(files);
    if (!found)
        return refusal(EndedBy::start,
                       "the count of its attempts cannot be read: " + found.error().text());
    if (*found && (*found)->attempt >= attempt) return std::nullopt;
    const auto earlier = record::attempt_of(files, attempt - 1);
    if (!earlier)
        return refusal(EndedBy::start,
                       "the record of its last attempt cannot be read: " + earlier.error().text());
    return *earlier ? judged(**earlier, found->has_value()) : without_record(found->has_value());
}

base::Result<slurm::JobId> QueueAgain::this_job() const {
    return slurm::JobId::parse(context_.granted.id_in_commands());
}

base::Result<slurm::JobSettings> QueueAgain::settings() const {
    return client_.settings(TRY(this_job()));
}

bool QueueAgain::is_preempted() const {
    if (context_.outside.why_job_ends() == EndedBy::preemption) return true;
    const auto found = settings();
    return found && found->preempted;
}

EndedBy QueueAgain::cause_of(const Ending& ending) const {
    const bool of_ranks = ending.by == EndedBy::program || ending.by == EndedBy::time_limit;
    if (!(context_.plan.retry || context_.plan.checkpoint) || !of_ranks) return ending.by;
    return is_preempted() ? EndedBy::preemption : ending.by;
}

std::optional<Ending> QueueAgain::preempted_although_well() const {
    const bool matters =
        context_.plan.retry && plan::retries_on(*context_.plan.retry, "preemption");
    if (!matters || !is_preempted()) return std::nullopt;
    const record::EndWords words = record::words_of(EndedBy::preemption);
    return Ending{.failure = {.code = std::string(words.code),
                              .message = std::string(words.message),
                              .phase = std::string(Ranks::name),
                              .exit_code = 0},
                  .by = EndedBy::preemption,
                  .exit_code = 0,
                  .of_success = true};
}

std::optional<std::string> QueueAgain::queue(const std::vector<std::string>& failed) {
    const std::string& id = context_.granted.job_id;
    std::string excluded = excluded_with(failed);
    for (int attempt = 1;; ++attempt) {
        if (user_has_ended_job()) return ended_by_user;
        const auto jobs = client_.jobs({id});
        if (jobs && jobs->contains(id)) {
            const slurm::JobStatus& job = jobs->at(id);
            if (job.state == slurm::JobState::cancelled) return "it has been cancelled";
            // Slurm has done so of its own accord.
            if (job.restart_count > context_.granted.restart) {
                exclude_later(failed, excluded);
                return std::nullopt;
            }
        }
        const auto queued = this_job().and_then([&](const slurm::JobId& job) {
            return excluded.empty() ? client_.requeue(job) : client_.requeue_without(job, excluded);
        });
        if (queued) {
            if (!excluded.empty()) say_excluded(failed);
            return std::nullopt;
        }
        const bool refused = queued.error().exit_code == base::ExitCode::refused;
        if (refused && !excluded.empty()) {
            say_not_excluded(failed, queued.error());
            excluded.clear();
            continue;
        }
        const Patience& patience = refused ? with_a_refusal : with_silence;
        if (attempt >= patience.tries)
            return "Slurm does not queue it again: " + queued.error().text();
        std::this_thread::sleep_for(patience.pause);
    }
}

std::vector<std::string> QueueAgain::failed_nodes(const Ending& ending) const {
    std::vector<std::string> failed = nodes_of(ending);
    for (const std::string& node : context_.bad_nodes) {
        if (!contains(failed, node)) failed.push_back(node);
    }
    if (ending.by == EndedBy::node) {
        // Slurm names no node in its notice.
        for (const std::string& node : nodes_that_start_no_tasks(client_, context_.granted.nodes)) {
            if (!contains(failed, node)) failed.push_back(node);
        }
    }
    return failed;
}

std::string QueueAgain::excluded_with(const std::vector<std::string>& failed) const {
    if (failed.empty()) return {};
    auto excluded = [&]() -> base::Result<std::string> {
        const slurm::JobSettings now = TRY(settings());
        for (const std::string& node : now.required) {
            if (contains(failed, node))
                return base::fail("the job must run on " + node, "--nodelist");
        }
        return slurm::with_nodes(now.excluded, failed);
    }();
    if (excluded) return *std::move(excluded);
    say_not_excluded(failed, excluded.error());
    return {};
}

void QueueAgain::exclude_later(const std::vector<std::string>& failed,
                               const std::string& excluded) const {
    if (excluded.empty()) return;
    const auto done = this_job().and_then(
        [&](const slurm::JobId& job) { return client_.exclude_nodes(job, excluded); });
    if (done)
        say_excluded(failed);
    else
        say_not_excluded(failed, done.error());
}

void QueueAgain::say_excluded(const std::vector<std::string>& failed) const {
    say(fmt::format("the job will not run on {} again", fmt::join(failed, ", ")));
}

void QueueAgain::say_not_excluded(const std::vector<std::string>& failed,
                                  const base::Error& why) const {
    say(fmt::format("{} cannot be excluded from the job: {}", fmt::join(failed, ", "), why.text()));
}

std::optional<std::string> QueueAgain::count_health() {
    const int most = context_.plan.health->retries;
    auto found = record::read_retry_count(context_.files());
    if (!found)
        return fmt::format("the count of its attempts cannot be read: {}", found.error().text());
    RetryCount now = found->value_or(RetryCount{.retries = context_.attempt() - 1});
    if (now.health >= most)
        return fmt::format(
            "it has been queued again {} because of the health of its nodes, and "
            "the site allows no more",
            most == 1 ? "once" : fmt::format("{} times", most));
    // "retry" does not count this, and need not judge it when the next attempt begins.
    ++now.health;
    now.attempt = context_.attempt() + 1;
    const auto written = record::write_retry_count(context_.files(), now);
    if (written) return std::nullopt;
    return fmt::format("the count of its attempts cannot be written: {}", written.error().text());
}

void QueueAgain::decide_on_bad_health(const Ending& ending) {
    if (context_.plan.health->retries == 0) return;
    if (user_has_ended_job()) return refuse({});
    // The job would come back to such a node.
    if (const auto now = settings()) {
        for (const std::string& node : now->required) {
            if (contains(nodes_of(ending), node))
                return refuse(fmt::format("it must run on {} (--nodelist)", node));
        }
    }
    if (const auto why = count_health()) return refuse(*why);
    accept("the job is queued again, without the nodes that failed", true);
}

void QueueAgain::decide_on_lost_node(const Ending& ending) {
    const bool kept = context_.outlives_nodes() && !context_.elastic;
    if (ending.by != EndedBy::node || !kept || user_has_ended_job()) return;
    accept("the job is queued again, because a node is lost", false);
}

void QueueAgain::decide(const Ending& ending) {
    if (std::exchange(decided_, true)) return;
    if (ending.by == EndedBy::health) return decide_on_bad_health(ending);
    if (!context_.plan.retry) return decide_on_lost_node(ending);
    if (user_has_ended_job()) return refuse({});
    if (const auto why =
            count({.by = ending.by, .exit_code = ending.exit_code}, context_.attempt() + 1))
        return refuse(*why);
    const std::string line =
        fmt::format("the job is queued again, retry {} of {}: {}", retries(),
                    context_.plan.retry->max, record::words_of(ending.by).message);
    accept(line, context_.plan.retry->exclude_failed_nodes);
}

void QueueAgain::accept(std::string line, bool excludes) {
    journal_.retried({.queued = true, .message = line});
    accepted_ = Accepted{.line = std::move(line), .excludes = excludes};
}

void QueueAgain::refuse(const std::string& why) {
    const std::string line = why.empty() ? std::string() : not_again(why);
    journal_.retried({.queued = false, .message = line});
    if (!line.empty()) say(line);
}

void QueueAgain::after(const Ending& ending) {
    decide(ending);
    const auto accepted = std::exchange(accepted_, std::nullopt);
    if (!accepted) return;
    if (user_has_ended_job()) return refuse(ended_by_user);
    // Slurm ends the batch script as soon as it has queued the job again, and this process with it
    // unless it is the script's own.
    say(accepted->line);
    const auto failed = accepted->excludes ? failed_nodes(ending) : std::vector<std::string>();
    if (const auto why = queue(failed)) return refuse(*why);
    // The user may have ended the job between the last look and the requeue.
    if (!user_has_ended_job()) return;
    const auto cancelled =
        this_job().and_then([&](const slurm::JobId& job) { return client_.cancel(job); });
    if (!cancelled) return say("the job cannot be cancelled: " + cancelled.error().text());
    refuse(ended_by_user);
}

}  // namespace batchai::run

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run/again/retry.hpp"
#include "run/context.hpp"
#include "run/phases/phase.hpp"
#include "slurm/client.hpp"

namespace batchai::run {

// Carries out the "retry" of a job, and queues any job again whose node has failed a check of the
// site, or that has lost more nodes than its spare ones could replace. Does nothing else for a job
// without "retry".
//
// Slurm itself queues a job again after a node failure and after most pre-emptions, and it may do
// so when nothing of the attempt is left that could decide. Such a requeue is judged when the next
// attempt begins.
class QueueAgain {
  public:
    QueueAgain(Context& context, Journal& journal, slurm::Client client)
        : context_(context), journal_(journal), client_(client) {}

    // Called before the first phase. Returns the ending of an attempt that must not run, because
    // Slurm has queued the job again against the job's wish or the user has ended the job. If the
    // last attempt had ended well, the ending is one of success.
    [[nodiscard]] std::optional<Ending> why_not_run();

    // Return whether "retry" has the ranks run again in their allocation after such an end, and
    // whether they may do so now. The limit of retries is not asked.
    [[nodiscard]] bool may_run_again(const Ending& ending) const;
    [[nodiscard]] bool may_run_here(const Ending& ending, const slurm::JobStatus& job) const;
    // Returns how often the job has been run again, the retry that count() has just counted
    // included.
    [[nodiscard]] int retries() const;
    // Counts a retry in this allocation. Returns how many these are now; nothing if the limit is
    // reached, or if the user has ended the job.
    [[nodiscard]] std::optional<int> count_here(const Ending& ending);
    // Uncounts it, because the ranks could not run.
    void take_back_retry();

    // Called when the attempt has failed, before its end is recorded, and again whenever it may: it
    // acts only once. Decides whether the job is to be queued again, and records that, so that
    // nobody takes the end of the attempt for the job's. May take some seconds.
    void decide(const Ending& ending);

    // Called when the attempt has failed, and again whenever it may. Has the job queued again if
    // that was decided. Afterwards Slurm ends the batch script within KillWait.
    void after(const Ending& ending);

    // Returns the end with the pre-emption as its cause, if one has ended the ranks. During a
    // pre-emption's grace time Slurm signals only the ranks, so that the cause seems to be theirs.
    [[nodiscard]] record::EndedBy cause_of(const Ending& ending) const;

    // Called when the ranks have ended with 0. Returns an ending if the job is being pre-empted and
    // is to run again after that: they have probably saved a checkpoint and are not done.
    [[nodiscard]] std::optional<Ending> preempted_although_well() const;

  private:
    // Returns why the job is not run again after the end, or nothing once the retry is counted.
    [[nodiscard]] std::optional<std::string> count(const AttemptEnd& end, int next_attempt);
    // Does the same for a job with a node that failed a check of the site.
    [[nodiscard]] std::optional<std::string> count_health();
    void decide_on_bad_health(const Ending& ending);
    // Slurm queues a job again that has lost a node, but not one with --no-kill.
    void decide_on_lost_node(const Ending& ending);
    // What the job's progress looks like now; empty if nobody can tell.
    [[nodiscard]] std::string progress() const;
    void write(const record::RetryCount& count) const;
    // The parts of why_not_run(): the ending, and whether the attempt before this one lets it run.
    [[nodiscard]] Ending refusal(record::EndedBy by, const std::string& why);
    [[nodiscard]] std::optional<Ending> judged(const record::Attempt& earlier, bool has_count);
    [[nodiscard]] std::optional<Ending> without_record(bool has_count);
    [[nodiscard]] bool is_queued_by_hand(const record::Attempt& earlier) const;
    [[nodiscard]] base::Result<slurm::JobId> this_job() const;
    [[nodiscard]] base::Result<slurm::JobSettings> settings() const;
    [[nodiscard]] bool is_preempted() const;
    // Returns why not, or nothing once the job is queued, to run without these nodes if possible.
    [[nodiscard]] std::optional<std::string> queue(const std::vector<std::string>& failed);
    // Records that the job is queued again, for which `line` is the sentence for the user, perhaps
    // without the nodes that failed.
    void accept(std::string line, bool excludes);
    // Records that the job is not run again. An empty reason needs no explanation.
    void refuse(const std::string& why);
    [[nodiscard]] bool user_has_ended_job() const;
    [[nodiscard]] std::vector<std::string> failed_nodes(const Ending& ending) const;
    // Returns what keeps the job off the nodes, and off those that it keeps off already. Empty:
    // there are none, or it is said why they cannot be excluded.
    [[nodiscard]] std::string excluded_with(const std::vector<std::string>& failed) const;
    // Does so for a job that is in the queue again.
    void exclude_later(const std::vector<std::string>& failed, const std::string& excluded) const;
    void say_excluded(const std::vector<std::string>& failed) const;
    void say_not_excluded(const std::vector<std::string>& failed, const base::Error& why) const;
    void say(const std::string& line) const;

    Context& context_;
    Journal& journal_;
    slurm::Client client_;
    bool decided_ = false;
    std::optional<record::RetryCount> before_retry_here_;
    struct Accepted {
        std::string line;
        bool excludes = false;
    };
    std::optional<Accepted> accepted_;  // until Slurm is asked
};

}  // namespace batchai::run

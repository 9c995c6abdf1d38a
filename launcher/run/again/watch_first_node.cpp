// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/watch_first_node.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "run/srun/step.hpp"
#include "slurm/client.hpp"

namespace batchai::run {

namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// Slurm itself takes minutes (SlurmdTimeout) to notice that a node no longer answers.
constexpr seconds between_looks_at_node{10};
// These apply after TERM. Together with node_answer_deadline, they end the watch before Slurm's
// KillWait has passed.
constexpr seconds between_last_looks{1};
constexpr seconds longest_doubt{20};
// Allows for a controller that is busy or is just being replaced by its backup. It cannot be much
// longer, because after TERM we have only KillWait, usually 30 s.
constexpr seconds node_answer_deadline{8};
constexpr int node_tries = 3;

// Returns whether Slurm may show this state for a job that has lost its first node while nobody has
// decided what becomes of the job.
bool is_undecided(slurm::JobState state) {
    using slurm::JobState;
    for (const JobState lost : {JobState::running, JobState::completing, JobState::resizing,
                                JobState::failed, JobState::node_fail})
        if (state == lost) return true;
    return false;
}

enum class Fate { lost, open, decided };

Fate look(const slurm::Client& client, const FirstNodeWatch& watch) {
    const auto jobs = client.jobs({watch.job_id});
    if (!jobs || !jobs->contains(watch.job_id)) return Fate::open;
    const auto text = base::read_file(watch.record_path);
    const auto attempt = text ? record::attempt_from_json(*text) : tl::unexpected(text.error());
    if (!attempt) return Fate::open;
    const auto& job = jobs->at(watch.job_id);
    if (first_node_is_lost(watch, job, *attempt)) return Fate::lost;
    return attempt->end || !is_undecided(job.state) ? Fate::decided : Fate::open;
}

void note(const FirstNodeWatch& watch, const std::string& line) {
    std::fprintf(stderr, "%s\n", line.c_str());
    if (watch.log_path.empty()) return;
    const base::FileDescriptor file(
        open(watch.log_path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
    if (file.valid()) dprintf(file.get(), "%s\n", line.c_str());
}

int queue_again(const slurm::Client& client, const FirstNodeWatch& watch) {
    for (int attempt = 1;; ++attempt) {
        const auto queued =
            slurm::JobId::parse(watch.id_in_commands).and_then([&](const slurm::JobId& job) {
                return client.requeue(job);
            });
        if (queued) {
            note(watch, fmt::format("batchai: the job's first node, {}, is lost: the job is queued "
                                    "again",
                                    watch.node));
            return 0;
        }
        if (attempt == node_tries) {
            note(watch,
                 fmt::format("batchai: error: the job's first node, {}, is lost, and the job "
                             "cannot be queued again: {}",
                             watch.node, queued.error().text()));
            return 1;
        }
        std::this_thread::sleep_for(seconds(1));
    }
}

}  // namespace

base::Arguments watch_arguments(const FirstNodeWatch& watch, const std::string& program,
                                const std::string& node) {
    return {"srun",
            "--overlap",
            "--mem=0",
            "--nodes=1",
            "--nodelist=" + node,
            "--ntasks=1",
            "--gres=none",
            "--mpi=none",
            "--cpu-bind=none",
            "--export=ALL",
            "--job-name=batchai-watch",
            "--quiet",
            "--input=none",
            "--output=none",
            "--error=none",
            program,
            "watch-first-node",
            "--slurm-job=" + watch.job_id,
            "--requeue=" + watch.id_in_commands,
            "--node=" + watch.node,
            "--record=" + watch.record_path,
            "--log=" + watch.log_path};
}

bool first_node_is_lost(const FirstNodeWatch& watch, const slurm::JobStatus& job,
                        const record::Attempt& attempt) {
    if (attempt.end || !is_undecided(job.state) || job.nodes.empty()) return false;
    return std::find(job.nodes.begin(), job.nodes.end(), watch.node) == job.nodes.end();
}

int watch_first_node(const FirstNodeWatch& watch) {
    const base::HeldSignals signals{SIGTERM, SIGINT, end_of_background_step};
    const slurm::Client client(node_answer_deadline);
    std::optional<Clock::time_point> told_to_end;
    while (true) {
        const auto signal =
            signals.next_within(told_to_end ? between_last_looks : between_looks_at_node);
        if (signal == end_of_background_step) return 0;
        if (signal && !told_to_end) told_to_end = Clock::now();
        const Fate fate = look(client, watch);
        if (fate == Fate::lost) return queue_again(client, watch);
        // Slurm may end this step before squeue shows that the node has left the job.
        if (told_to_end && (fate == Fate::decided || Clock::now() > *told_to_end + longest_doubt))
            return 0;
    }
}

}  // namespace batchai::run

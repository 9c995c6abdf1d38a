// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/watch_first_node.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/signals.hpp"
#include "slurm/client.hpp"

namespace batchai::run {

namespace {

using std::chrono::seconds;

// Slurm itself takes minutes (SlurmdTimeout) to notice that a node no longer answers.
constexpr seconds between_looks{10};
// Allows for a controller that is busy or is just being replaced by its backup. It cannot be much
// longer, because after TERM we have only KillWait, usually 30 s.
constexpr seconds answer_deadline{8};
constexpr int tries = 3;

// Returns whether Slurm may show this state for a job that has lost its first node while nobody has
// decided what becomes of the job.
bool is_undecided(slurm::JobState state) {
    using slurm::JobState;
    for (const JobState lost : {JobState::running, JobState::completing, JobState::resizing,
                                JobState::failed, JobState::node_fail})
        if (state == lost) return true;
    return false;
}

bool look(const slurm::Client& client, const FirstNodeWatch& watch) {
    const auto jobs = client.jobs({watch.job_id});
    if (!jobs || !jobs->contains(watch.job_id)) return false;
    const auto text = base::read_file(watch.record_path);
    const auto attempt = text ? record::attempt_from_json(*text) : tl::unexpected(text.error());
    return attempt && first_node_is_lost(watch, jobs->at(watch.job_id), *attempt);
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
        const auto queued = client.requeue(watch.job_id);
        if (queued) {
            note(watch, fmt::format("batchai: the job's first node, {}, is lost: the job is queued "
                                    "again and goes on from its last commit",
                                    watch.node));
            return 0;
        }
        if (attempt == tries) {
            note(watch,
                 fmt::format("batchai: error: the job's first node, {}, is lost, and the job "
                             "cannot be queued again: {}",
                             watch.node, queued.error().text()));
            return 1;
        }
        std::this_thread::sleep_for(seconds(1));
    }
}

// Waits up to `time` for TERM or INT. Returns whether one of them has come.
bool told_to_end(const base::HeldSignals& signals, std::chrono::milliseconds time) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + time;
    for (auto now = Clock::now(); now < until; now = Clock::now()) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
        if (signals.next_within(left)) return true;
    }
    return false;
}

}  // namespace

base::Arguments watch_arguments(const FirstNodeWatch& watch, const std::string& program,
                                const std::string& node) {
    return {"srun",
            "--overlap",
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
    const base::HeldSignals signals{SIGTERM, SIGINT};
    const slurm::Client client(answer_deadline);
    while (true) {
        const bool ends = told_to_end(signals, between_looks);
        if (look(client, watch)) return queue_again(client, watch);
        if (ends) return 0;
    }
}

}  // namespace batchai::run

// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/final_failure.hpp"

namespace batchai::run {

std::optional<std::string> let_fail(const slurm::Client& client, const slurm::ThisJob& job) {
    const auto id = slurm::JobId::parse(job.id_in_commands());
    if (!id) return std::nullopt;
    const auto now = client.settings(*id);
    // A job whose nodes Slurm has taken is one that it may have queued again.
    if (!now || !now->expedited || !now->runs || now->preempted) return std::nullopt;
    if (const auto told = client.forbid_requeue(*id); !told)
        return "Slurm may hold the job now that it has failed (--requeue=expedite): " +
               told.error().text();
    return "Slurm is told not to hold the job, which has failed (--requeue=expedite)";
}

}  // namespace batchai::run

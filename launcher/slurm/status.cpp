// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/status.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace batchai::slurm {

namespace {

constexpr std::array<std::pair<std::string_view, JobState>, 25> job_states{{
    {"PENDING", JobState::pending},           {"RUNNING", JobState::running},
    {"SUSPENDED", JobState::suspended},       {"COMPLETED", JobState::completed},
    {"CANCELLED", JobState::cancelled},       {"FAILED", JobState::failed},
    {"TIMEOUT", JobState::timeout},           {"NODE_FAIL", JobState::node_fail},
    {"PREEMPTED", JobState::preempted},       {"BOOT_FAIL", JobState::boot_fail},
    {"DEADLINE", JobState::deadline},         {"OUT_OF_MEMORY", JobState::out_of_memory},
    {"CONFIGURING", JobState::configuring},   {"COMPLETING", JobState::completing},
    {"EXPEDITING", JobState::expediting},     {"REQUEUED", JobState::requeued},
    {"REQUEUE_HOLD", JobState::requeue_hold}, {"REQUEUE_FED", JobState::requeue_fed},
    {"RESIZING", JobState::resizing},         {"RESV_DEL_HOLD", JobState::reservation_deleted_hold},
    {"REVOKED", JobState::revoked},           {"SIGNALING", JobState::signaling},
    {"SPECIAL_EXIT", JobState::special_exit}, {"STAGE_OUT", JobState::stage_out},
    {"STOPPED", JobState::stopped},
}};

}  // namespace

bool is_job_id(std::string_view text) {
    return !text.empty() && text.size() <= 10 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
}

base::Result<JobId> JobId::parse(std::string_view text) {
    const std::size_t bar = text.find('_');
    if (!is_job_id(text.substr(0, bar)) ||
        (bar != std::string_view::npos && !is_job_id(text.substr(bar + 1))))
        return base::fail(fmt::format("\"{}\" is not a job id", text), "Slurm");
    return JobId(std::string(text));
}

JobState job_state(std::string_view text) {
    // Accounting says "CANCELLED by 1000". A column that is too narrow shows "CANCELLED+".
    const std::string_view word = text.substr(0, text.find_first_of(" +"));
    for (const auto& [name, state] : job_states)
        if (word == name) return state;
    return JobState::unknown;
}

std::string_view to_string(JobState state) {
    for (const auto& [name, candidate] : job_states)
        if (state == candidate) return name;
    return "UNKNOWN";
}

bool is_final(JobState state) {
    switch (state) {
        case JobState::completed:
        case JobState::cancelled:
        case JobState::failed:
        case JobState::timeout:
        case JobState::node_fail:
        case JobState::preempted:
        case JobState::boot_fail:
        case JobState::deadline:
        case JobState::out_of_memory:
        case JobState::revoked:
            return true;
        default:
            return false;
    }
}

}  // namespace batchai::slurm

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string_view>

#include "slurm/client.hpp"

// How long Slurm lets a job wait that it has queued again, before it may start the job. The site
// decides that. Pure.
namespace batchai::slurm {

// The delay of a site that has not chosen one.
inline constexpr std::chrono::seconds default_requeue_delay{120};

// What makes the delay shorter in slurm.conf of this release.
struct DelaySetting {
    std::string_view key;    // "SchedulerParameters": a list, to which the option is added
    std::string_view value;  // an example of the option, such as "requeue_delay=5"
};

// These read what `scontrol show config` prints.
[[nodiscard]] std::chrono::seconds requeue_delay(const Configuration& configuration);
[[nodiscard]] DelaySetting setting_of_requeue_delay(const Configuration& configuration);

}  // namespace batchai::slurm

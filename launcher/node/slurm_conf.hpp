// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>
#include <string_view>

// What batchai-node has to know of Slurm's configuration, read as the user.
namespace batchai::node {

// The text of slurm.conf: of `file` if that is not empty and can be read, else from the usual
// places. Empty when there is none.
[[nodiscard]] std::string read_slurm_conf(const std::string& file);

// UnkillableStepTimeout: how long after its kill a step may take to end before Slurm drains the
// node. A minute, as Slurm has it, where the text does not say.
[[nodiscard]] std::chrono::seconds unkillable_step_timeout(std::string_view slurm_conf);

// How long remote storage may be waited for after a step was killed, so that there is time left to
// save what it has not got. `kill_timeout` is the plugin's patience; 0: not known.
[[nodiscard]] std::chrono::seconds flush_of_killed(std::chrono::seconds kill_timeout,
                                                   std::chrono::seconds unkillable);

}  // namespace batchai::node

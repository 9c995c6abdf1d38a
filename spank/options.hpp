// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "spank/slurm.hpp"

namespace batchai::spank {

// What the user gave with --job-json, --ignore-container and --job-image. srun applies options
// inherited from the environment before those of its command line; the last one counts.
struct Options {
    std::string job_json;
    // How often it was given for this component, in the environment and on the command line.
    int job_json_count = 0;
    bool ignore_container = false;
    std::string job_image;
    std::string fault;  // why nothing is to be submitted; empty: no fault
};

// What the admin has set in plugstack.conf.
struct Settings {
    std::string launcher;           // the batchai program
    std::string node_program;       // batchai-node
    std::string node_directory;     // for the epilog; empty: as the site file says
    std::string runtime_directory;  // where root notes the jobs to clean up after
    int timeout_seconds = 30;       // for the sandbox of one step on one node
};

// Registers the options. slurm_spank_init must call it in every context.
void register_options(spank_t handle);

// Returns what the callbacks have collected. Valid on the submitting side from init_post_opt on.
[[nodiscard]] const Options& options();

// init_post_opt, at its end: srun applies the options of the environment again to each component of
// a step, and calls the hook after each.
void component_has_ended();

// Returns whether srun starts several components. It takes each ":" among its words for their
// border. sbatch and salloc give their script words that may be anything; is_heterogeneous() in
// submit_side.cpp is for them.
[[nodiscard]] bool is_srun_of_components();

// On a node: returns whether the step has --job-json, or --job-image, which has a meaning only with
// --job-json. Works in any hook from user_init to task_exit.
[[nodiscard]] bool job_json_was_given(spank_t handle);

// Logs and ignores unknown and malformed arguments: a typing error of the admin must not fail any
// job.
[[nodiscard]] Settings read_settings(int argument_count, char* arguments[]);

}  // namespace batchai::spank

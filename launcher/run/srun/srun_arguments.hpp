// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.hpp"
#include "plan/plan.hpp"

namespace batchai::run {

// Returns a shell script that does what `script` does, but only in the job's sandbox. The plugin
// sets BATCHAI_SANDBOX to the plan's digest in every task that it has prepared. Any other task
// would run on the bare host, without the job's mounts and outside its container, so the script
// refuses to run there and exits with code 97. It needs only a POSIX shell, because an image need
// not have any other program.
[[nodiscard]] std::string guarded(std::string_view script);

// Absolute host paths in one directory. In the names of the files, "%t" stands for the task
// (slurm/file_pattern.hpp).
struct StepFiles {
    std::string standard_output;
    std::string standard_error;
};

// Returns a step whose tasks are not ranks and may use the whole node.
[[nodiscard]] plan::Step one_task_per_node(int nodes);

// What Slurm does with a step when a task of it ends badly or a node of it is lost.
enum class AfterLoss {
    ends,
    goes_on,  // until the other tasks have ended
};

// In the functions below, the step runs on `nodes`. If `nodes` is empty, it runs on all nodes of
// the allocation or, for the master step, on the first.

// Returns the argument vector of the srun that carries out `step`. It states all sizes explicitly,
// because srun since 22.05 inherits only some of them from sbatch.
[[nodiscard]] base::Arguments srun_arguments(const plan::Plan& plan, const plan::Step& step,
                                             const std::string& mpi, const StepFiles& files,
                                             const std::vector<std::string>& nodes = {},
                                             AfterLoss after_loss = AfterLoss::ends);

// A step that a phase of the attempt makes beside those of the plan, such as a check of the nodes.
// Its tasks read nothing, and srun prints their output, unless a member says otherwise.
struct PhaseStep {
    plan::Step layout;                 // whose kind and sizes it has
    std::vector<std::string> nodes{};  // none: as in srun_arguments()
    std::string mpi = "none";
    std::string name{};         // in Slurm's accounting; none: that of the job
    bool shares_nodes = false;  // it runs at the same time as the ranks, without devices
    bool reads_input = false;   // each task reads what srun reads
    bool unbuffered = false;    // the output comes as the tasks write it
    // Whether a task that fails ends the step. Otherwise the others report, too.
    bool ends_at_first_failure = false;
    std::chrono::seconds patience{0};  // for the others once a task has ended; 0: no limit
    base::Arguments command;
};
[[nodiscard]] base::Arguments phase_arguments(const plan::Plan& plan, const PhaseStep& step);

// Returns that for the clean-up of nodes that an elastic job gives back while it runs. `program`
// is batchai-node on the nodes; the step needs the environment of bare nodes.
[[nodiscard]] base::Arguments clean_up_arguments(const std::string& program,
                                                 const std::string& job_id,
                                                 const std::vector<std::string>& nodes);

// A step beside the others of a running job. It runs one command on one node, with everything that
// the ranks have there, and starts in srun's directory or in the image's. It takes no memory from
// them and shares their devices.
struct Visit {
    std::string job_id;  // Slurm's job id
    std::string node;
    std::optional<std::string> command;  // for the shell; none: an interactive shell
    bool terminal = false;               // with a terminal of its own
    base::Arguments words{};             // a program and its arguments, instead of a shell
};

// Returns the argument vector of srun. Ctrl-C goes to the command, and srun's exit code is the
// command's.
[[nodiscard]] base::Arguments visit_arguments(const Visit& visit);

// What to do where a command of the user's finds no srun.
inline constexpr const char* no_srun_hint = "is Slurm's client package installed on this host?";

// A step of one task on each node whose standard input and output carry bytes unchanged. It gets no
// devices. What several tasks print comes mixed, but short lines stay whole.
struct PipedWish {
    std::string job_id;
    std::vector<std::string> nodes;
    std::string name;  // in Slurm's accounting
    // Output comes at once. Otherwise Slurm holds back what is not a whole line until more comes or
    // the task ends. The task's standard output is then a terminal, to which some programs refuse
    // to write.
    bool prompt = false;
    base::Arguments command;  // the first word is an absolute path on the node or in the container
};
[[nodiscard]] base::Arguments piped_arguments(const PipedWish& wish);

// Returns the environment for srun: ours without the variables that an enclosing sbatch or a job
// around this one set for its own purposes, plus `additions` ("NAME=value"), which take precedence.
[[nodiscard]] base::Environment srun_environment(const base::Environment& additions);
// Does the same for a step that prints into `files`. If srun needs their directory as its working
// directory, a variable tells the plugin where the tasks start instead.
[[nodiscard]] base::Environment srun_environment(const plan::Plan& plan, const StepFiles& files,
                                                 base::Environment additions);

// Returns the environment for a step that needs none of the job's mounts. No sandbox is built,
// because the environment has neither the plan nor sbatch's --job-json.
[[nodiscard]] base::Environment environment_of_bare_nodes();

}  // namespace batchai::run

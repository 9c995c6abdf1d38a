// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

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

// Absolute host paths in one directory. In the names of the files, "%N" stands for the node and
// "%t" for the task (slurm/file_pattern.hpp).
struct StepFiles {
    std::string standard_output;
    std::string standard_error;
};

// Returns a step whose tasks are no ranks and may use the whole node.
[[nodiscard]] plan::Step one_task_per_node(int nodes);

// In the functions below, the step runs on `nodes`. If `nodes` is empty, it runs on all nodes of
// the allocation or, for the master step, on the first.

// Returns the argument vector of the srun that carries out `step`. It states all sizes explicitly,
// because srun since 22.05 inherits only some of them from sbatch.
[[nodiscard]] base::Arguments srun_arguments(const plan::Plan& plan, const plan::Step& step,
                                             const std::string& mpi, const StepFiles& files,
                                             const std::vector<std::string>& nodes = {});

// Does the same for the wire-up check. It has as many processes as the ranks step; each runs
// `check` and reports to a file of its own (JobFiles::wire_up_reports). The tasks are held
// (StepRequest).
[[nodiscard]] base::Arguments wire_up_arguments(const plan::Plan& plan, const plan::Step& ranks,
                                                const std::string& mpi,
                                                const base::Arguments& check,
                                                const std::string& reports,
                                                const std::vector<std::string>& nodes = {});

// Does the same for the step that holds ports (tensorflow/held_ports.hpp), which is laid out like
// the ranks step. Each task runs `holder`.
[[nodiscard]] base::Arguments hold_ports_arguments(const plan::Plan& plan, const plan::Step& ranks,
                                                   const base::Arguments& holder,
                                                   const std::vector<std::string>& nodes = {});
// Does the same for the check of the GPUs, which is `program`. `step` has one task for each node,
// and each reports to a file of its own (JobFiles::gpu_reports). A task whose Slurm names no GPUs
// of NVIDIA's to it, or that does not find the program, reports nothing.
[[nodiscard]] base::Arguments gpu_check_arguments(const plan::Plan& plan, const plan::Step& step,
                                                  const std::string& program,
                                                  const std::string& reports,
                                                  const std::vector<std::string>& nodes = {});

// Does the same for setting up the job's software (phases/software.sh). `words` are the arguments
// of that script.
[[nodiscard]] base::Arguments software_arguments(const plan::Plan& plan, const plan::Step& step,
                                                 const base::Arguments& words);
// Does the same for the site's checks of the nodes. `program` is batchai-node on the nodes; the
// step needs the environment of bare nodes, and each task reports to a file of its own
// (JobFiles::health_reports).
[[nodiscard]] base::Arguments health_arguments(const plan::Plan& plan, const plan::Step& step,
                                               const std::string& program,
                                               const std::string& reports);

// Does the same for the clean-up of nodes that an elastic job gives back while it runs. `program`
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

// A step of one task whose standard input and output carry bytes unchanged. It gets no devices.
struct PipedStep {
    std::string job_id;
    std::string node;
    std::string name;  // in Slurm's accounting
    // Output comes at once. Otherwise Slurm holds back what is not a whole line until more comes or
    // the task ends. The task's standard output is then a terminal, to which some programs refuse
    // to write.
    bool prompt = false;
    base::Arguments command;  // the first word is an absolute path on the node or in the container
};
[[nodiscard]] base::Arguments piped_arguments(const PipedStep& step);

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

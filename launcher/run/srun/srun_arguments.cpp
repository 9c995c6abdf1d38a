// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/srun_arguments.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "slurm/file_pattern.hpp"
#include "spank/protocol.h"

namespace batchai::run {

namespace {

// The refusal is reported in the same way as one of the plugin itself.
constexpr std::string_view guard =
    R"(if [ "${proof}" != "${digest}" ]; then
  why="the plugin batchai.so is not active on node ${{SLURMD_NODENAME:-?}}, and no part of the job is run outside its sandbox; ask the admin to add the plugin to plugstack.conf there"
  echo "batchai: $why" >&2
  if [ -n "${refusals}" ]; then echo "$why" > "${refusals}.$SLURM_PROCID.txt"; fi
  exit 97
fi
)";

}  // namespace

std::string guarded(std::string_view script) {
    return fmt::format(guard, fmt::arg("proof", BATCHAI_PROOF_VARIABLE),
                       fmt::arg("digest", BATCHAI_DIGEST_VARIABLE),
                       fmt::arg("refusals", BATCHAI_REFUSALS_VARIABLE))
        .append(script);
}

namespace {

constexpr std::string_view run_command = R"(exec /bin/bash -c "$1")";

// An image need not have bash. Its entry point, if the job wants it, comes first.
constexpr std::string_view run_command_in_container =
    R"(command=$1
shift
if [ -x /bin/bash ]; then exec "$@" /bin/bash -c "$command"; fi
exec "$@" /bin/sh -c "$command")";

// Starts the shell of the image or of the node. It is not a login shell, because /etc/profile would
// set a PATH that differs from the ranks'.
constexpr std::string_view run_shell =
    R"(if [ -x /bin/bash ]; then exec /bin/bash "$@"; fi
exec /bin/sh "$@")";

constexpr std::string_view run_words = R"(exec "$@")";

void add_command(base::Arguments& arguments, const plan::Plan& plan, const plan::Step& step) {
    const std::string name = "batchai-step";
    if (!plan.container) {
        arguments.insert(arguments.end(),
                         {"/bin/bash", "-c", guarded(run_command), name, step.command});
        return;
    }
    arguments.insert(arguments.end(),
                     {"/bin/sh", "-c", guarded(run_command_in_container), name, step.command});
    arguments.insert(arguments.end(), plan.container->entrypoint.begin(),
                     plan.container->entrypoint.end());
}

// Lets the step run at the same time as the others of the job. It gets no devices. It asks for no
// memory of its own, so it shares the job's: otherwise Slurm 22.05 counts the memory of the running
// steps against it in spite of --overlap, and does not create the step if they have all of the
// job's ("Memory required by task is not available").
void share_nodes(base::Arguments& arguments) {
    arguments.insert(arguments.end(), {"--overlap", "--gres=none", "--mem=0"});
}

void add_layout(base::Arguments& arguments, const plan::Plan& plan, const plan::Step& step,
                const std::vector<std::string>& nodes) {
    const bool everywhere = step.kind != plan::StepKind::master;
    if (nodes.empty()) {
        arguments.push_back(
            fmt::format("--nodes={}", everywhere ? plan.allocation.all_nodes() : 1));
    } else {
        arguments.push_back(fmt::format("--nodes={}", nodes.size()));
        arguments.push_back(fmt::format("--nodelist={}", fmt::join(nodes, ",")));
    }
    arguments.push_back(fmt::format("--ntasks={}", step.processes));
    arguments.push_back(fmt::format("--ntasks-per-node={}", step.processes_per_node));
    if (step.kind == plan::StepKind::preparation || step.kind == plan::StepKind::master) {
        // The step has one process per node, which may use the whole node. A master step also
        // leaves room for the steps that the user's own launcher makes.
        arguments.emplace_back("--cpu-bind=none");
        arguments.emplace_back("--overlap");
    } else if (step.kind == plan::StepKind::parameter_servers) {
        arguments.emplace_back("--cpu-bind=none");
        share_nodes(arguments);
    } else if (plan.allocation.cpus_per_process > 0) {
        arguments.push_back(fmt::format("--cpus-per-task={}", plan.allocation.cpus_per_process));
    } else if (step.processes_per_node == 1) {
        arguments.emplace_back("--cpu-bind=none");
    }
}

}  // namespace

plan::Step one_task_per_node(int nodes) {
    plan::Step step;
    step.kind = plan::StepKind::preparation;
    step.processes = nodes;
    step.processes_per_node = 1;
    return step;
}

base::Arguments srun_arguments(const plan::Plan& plan, const plan::Step& step,
                               const std::string& mpi, const StepFiles& files,
                               const std::vector<std::string>& nodes, AfterLoss after_loss) {
    base::Arguments arguments{"srun"};
    add_layout(arguments, plan, step, nodes);
    arguments.push_back("--mpi=" + (step.pmix ? mpi : std::string("none")));
    arguments.emplace_back("--export=ALL");
    arguments.emplace_back("--input=none");
    if (after_loss == AfterLoss::ends)
        arguments.emplace_back("--kill-on-bad-exit=1");
    else
        arguments.insert(arguments.end(), {"--kill-on-bad-exit=0", "--no-kill"});
    // A rank may finish long before the others; that must never end the step.
    arguments.emplace_back("--wait=0");
    if (plan.snapshot && !plan.snapshot->working_directory.empty())
        arguments.push_back("--chdir=" + plan.snapshot->working_directory);
    // If there are two working directories, srun takes the last one.
    for (std::string& option : slurm::output_options(files.standard_output, files.standard_error))
        arguments.push_back(std::move(option));
    arguments.emplace_back("--open-mode=append");
    add_command(arguments, plan, step);
    return arguments;
}

base::Arguments phase_arguments(const plan::Plan& plan, const PhaseStep& step) {
    base::Arguments arguments{"srun"};
    add_layout(arguments, plan, step.layout, step.nodes);
    if (step.shares_nodes) share_nodes(arguments);
    arguments.insert(arguments.end(), {"--mpi=" + step.mpi, "--export=ALL"});
    if (!step.name.empty()) arguments.push_back("--job-name=" + step.name);
    // Users may have changed the defaults by SLURM_STDINMODE and SLURM_STDOUTMODE.
    arguments.emplace_back(step.reads_input ? "--input=all" : "--input=none");
    arguments.emplace_back("--output=all");
    if (step.unbuffered) arguments.emplace_back("--unbuffered");
    arguments.push_back(fmt::format("--kill-on-bad-exit={}", step.ends_at_first_failure ? 1 : 0));
    arguments.push_back(fmt::format("--wait={}", step.patience.count()));
    arguments.insert(arguments.end(), step.command.begin(), step.command.end());
    return arguments;
}

base::Arguments clean_up_arguments(const std::string& program, const std::string& job_id,
                                   const std::vector<std::string>& nodes) {
    base::Arguments arguments{"srun", fmt::format("--nodes={}", nodes.size()),
                              fmt::format("--nodelist={}", fmt::join(nodes, ",")),
                              fmt::format("--ntasks={}", nodes.size()), "--ntasks-per-node=1"};
    share_nodes(arguments);
    arguments.insert(arguments.end(),
                     {"--cpu-bind=none", "--mpi=none", "--export=ALL", "--job-name=batchai-clean",
                      "--quiet", "--input=none", "--kill-on-bad-exit=0", "--wait=0", program,
                      "clean", "--wait", "--job-id=" + job_id});
    return arguments;
}

base::Arguments visit_arguments(const Visit& visit) {
    base::Arguments arguments{
        "srun",         "--jobid=" + visit.job_id,  "--overlap",  "--mem=0",
        "--nodes=1",    "--nodelist=" + visit.node, "--ntasks=1", "--mpi=none",
        "--export=ALL", "--job-name=batchai-exec",  "--quiet"};
    // Without this option, the first Ctrl-C would only show the state of the step.
    arguments.emplace_back("--disable-status");
    if (visit.terminal) arguments.emplace_back("--pty");
    arguments.insert(
        arguments.end(),
        {"/bin/sh", "-c", guarded(visit.words.empty() ? run_shell : run_words), "batchai-exec"});
    if (visit.command) arguments.insert(arguments.end(), {"-c", *visit.command});
    arguments.insert(arguments.end(), visit.words.begin(), visit.words.end());
    return arguments;
}

base::Arguments piped_arguments(const PipedWish& wish) {
    base::Arguments arguments{"srun", "--jobid=" + wish.job_id,
                              fmt::format("--nodes={}", wish.nodes.size()),
                              fmt::format("--nodelist={}", fmt::join(wish.nodes, ",")),
                              fmt::format("--ntasks={}", wish.nodes.size())};
    share_nodes(arguments);
    // These options replace what users may have set by variables.
    arguments.insert(arguments.end(),
                     {"--cpu-bind=none", "--mpi=none", "--export=ALL", "--job-name=" + wish.name,
                      "--quiet", "--disable-status", "--input=all", "--output=all", "--error=all",
                      "--wait=0", "--kill-on-bad-exit=0"});
    if (wish.prompt) arguments.emplace_back("--unbuffered");
    arguments.insert(arguments.end(), wish.command.begin(), wish.command.end());
    return arguments;
}

namespace {

// The beginnings of variables that steps of ours do not get. srun takes an option from each of
// them, by which users or a job around this one have asked for something else, and some exclude
// each other. What is left says how tasks are bound, measured and accounted (SLURM_GPU_BIND,
// SLURM_MEM_BIND, SLURM_CPU_FREQ_REQ, SLURM_PROFILE, …), which job this is, or which Slurm.
constexpr auto variables_left_out = std::to_array<std::string_view>({
    // Each step has a sandbox and a working directory of its own.
    BATCHAI_PROOF_VARIABLE "=",
    BATCHAI_DIRECTORY_VARIABLE "=",
    // Jobs that the ranks submit do not have this wish.
    BATCHAI_CLEAN_UP_VARIABLE "=",
    // Those of this job are set again, if it has them.
    "SLURM_ARRAY_",
    "SLURM_RESTART_COUNT=",
    // The size of a step. It gets the job's memory and devices, or says on its command line that it
    // shares them.
    "SLURM_NTASKS",
    "SLURM_NPROCS=",
    "SLURM_TASKS_PER_NODE=",
    // From 23.11 on, srun takes the latter two together, and steps become exact by them.
    "SLURM_CPUS_PER_",
    "SLURM_TRES_PER_",
    "SLURM_MEM_PER_",
    // SLURM_GPUS_PER_TASK stays, because it gives each rank a GPU to itself, and is an option of
    // sbatch that no plan knows. The plugin removes that of a job around one with --job-json. A job
    // without it, whose script names the job file, keeps it.
    "SLURM_GPUS=",
    "SLURM_GPUS_PER_NODE=",
    "SLURM_GPUS_PER_SOCKET=",
    "SLURM_GRES",
    "SLURM_STEP_",
    "SLURM_CORE_SPEC=",
    "SLURM_THREAD_SPEC=",
    "SLURM_RESV_PORTS=",
    "SLURM_CONSTRAINT=",
    "SLURM_USE_MIN_NODES=",
    "SLURM_SPREAD_JOB=",
    "SLURM_TIMELIMIT=",
    // A hint for the layout excludes options of srun, and so do components of a heterogeneous job.
    "SLURM_HINT=",
    "SLURM_HET_",
    "SLURM_DISTRIBUTION=",
    "SLURM_CPU_BIND",
    // How the step is started and ends, and where its output goes.
    "SLURM_CLUSTERS=",
    "SLURM_CONTAINER",
    "SLURM_EXPORT_ENV=",
    "SLURM_REMOTE_CWD=",
    "SLURM_WORKING_DIR=",
    "SLURM_PROLOG=",
    "SLURM_EPILOG=",
    "SLURM_TASK_PROLOG=",
    "SLURM_TASK_EPILOG=",
    "SLURM_TEST_EXEC=",
    "SLURM_IMMEDIATE=",
    "SLURM_EXIT_",
    "SLURM_SIGNAL=",
    "SLURM_MPI_TYPE=",
    "SLURM_OPEN_MODE=",
    "SLURM_STDINMODE=",
    "SLURM_STDOUTMODE=",
    "SLURM_STDERRMODE=",
    "SLURM_KILL_BAD_EXIT=",
    "SLURM_WAIT=",
    "SLURM_EXACT=",
    "SLURM_EXCLUSIVE=",
    "SLURM_OVERLAP=",
    "SLURM_LABELIO=",
    "SLURM_UNBUFFEREDIO=",
    "SLURM_NO_KILL=",
    "SLURM_MULTI_PROG=",
    "SLURM_SRUN_MULTI=",
    "SLURM_EXTERNAL_LAUNCHER=",
    "SLURM_SRUN_REDUCE_TASK_EXIT_MSG=",
    "SRUN_",
});

}  // namespace

base::Environment srun_environment(const base::Environment& additions) {
    base::Environment kept =
        base::environment_without({variables_left_out.begin(), variables_left_out.end()});
    const auto overridden = [&](const std::string& entry) {
        const std::string name = entry.substr(0, entry.find('=') + 1);
        return std::any_of(additions.begin(), additions.end(),
                           [&](const std::string& addition) { return addition.starts_with(name); });
    };
    kept.erase(std::remove_if(kept.begin(), kept.end(), overridden), kept.end());
    kept.insert(kept.end(), additions.begin(), additions.end());
    return kept;
}

base::Environment srun_environment(const plan::Plan& plan, const StepFiles& files,
                                   base::Environment additions) {
    if (slurm::is_pattern(slurm::directory_of_output(files.standard_output))) {
        std::error_code ignored;
        std::string directory = std::filesystem::current_path(ignored).string();
        if (plan.snapshot && !plan.snapshot->working_directory.empty())
            directory = plan.snapshot->working_directory;
        additions.push_back(fmt::format(BATCHAI_DIRECTORY_VARIABLE "={}", directory));
    }
    return srun_environment(additions);
}

base::Environment environment_of_bare_nodes() {
    base::Environment environment = srun_environment({});
    std::erase_if(environment, [](const std::string& entry) {
        return entry.starts_with(BATCHAI_PLAN_VARIABLE "=") ||
               entry.starts_with(BATCHAI_DIGEST_VARIABLE "=") ||
               entry.find(BATCHAI_OPTION_VARIABLE_PREFIX) < entry.find('=');
    });
    return environment;
}

}  // namespace batchai::run

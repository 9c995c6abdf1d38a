// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/launch.hpp"

#include <array>
#include <charconv>
#include <string_view>

#include <unistd.h>

namespace mpi_bridge {
namespace {

int number(const std::optional<std::string>& text) {
    int value = 0;
    if (text) std::from_chars(text->data(), text->data() + text->size(), value);
    return value;
}

// Slurm names the step in PMIX_NAMESPACE: slurm.pmix.JOB.STEP. The components of a heterogeneous
// job share a namespace that carries one of their ids.
bool from_another_step(const Environment& environment, std::string_view name_space) {
    constexpr std::string_view prefix = "slurm.pmix.";
    const auto job = environment("SLURM_JOB_ID");
    const auto step = environment("SLURM_STEP_ID");
    if (!name_space.starts_with(prefix) || !job || !step || environment("SLURM_HET_SIZE")) {
        return false;
    }
    return name_space.substr(prefix.size()) != *job + "." + *step;
}

bool started_by_pmix(const Environment& environment) {
    const auto name_space = environment("PMIX_NAMESPACE");
    return name_space && environment("PMIX_RANK") && !from_another_step(environment, *name_space);
}

// The same for PMI-2, whose PMI_JOBID is JOB.STEP.
bool pmi2_of_this_step(const Environment& environment) {
    const auto job = environment("SLURM_JOB_ID");
    const auto step = environment("SLURM_STEP_ID");
    const auto id = environment("PMI_JOBID");
    if (!job || !step || !id) return false;
    // In a heterogeneous job, the id may be that of another component.
    return environment("SLURM_HET_SIZE") || *id == *job + "." + *step;
}

tl::unexpected<Failure> refuse(int tasks, std::string_view launcher, const std::string& remedy) {
    return fail(
        MPIB_ERROR_BOOTSTRAP,
        std::string(launcher) + " started " + std::to_string(tasks) +
            " processes without PMIx or Slurm's PMI-2, so each would run alone as rank 0 of 1: " +
            remedy + ". Set MPI_BRIDGE_ALONE=1 if every process is meant to be alone");
}

std::string remedy_for_slurm(const Environment& environment) {
    const std::string type = environment("SLURM_MPI_TYPE").value_or("");
    if (type.starts_with("pmix")) {
        return "the step has --mpi=" + type +
               ", but its PMIX_* variables did not reach this process; the container or script "
               "that starts it must pass them on";
    }
    if (type == "pmi2") {
        return "the step has --mpi=pmi2, but its PMI_* variables did not reach this process; the "
               "container or script that starts it must pass them on";
    }
    return "start them with `srun --mpi=pmix`" + (type.empty() ? "" : " instead of --mpi=" + type) +
           ", or with --mpi=pmi2 where `srun --mpi=list` does not have it";
}

// Launchers that pass on the number of processes but use an older PMI, or whose PMIx variables were
// lost on the way.
struct OtherLauncher {
    const char* size_variable;
    std::string_view name;
};
constexpr std::array other_launchers{
    OtherLauncher{"PMI_SIZE", "a PMI launcher (MPICH's mpirun or the like)"},
    OtherLauncher{"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
};

}  // namespace

std::optional<int> pmi2_socket(const Environment& environment) {
    const auto text = environment("PMI_FD");
    if (!text || !environment("PMI_RANK") || !pmi2_of_this_step(environment)) return std::nullopt;
    int socket = -1;
    const auto* const end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, socket);
    if (error != std::errc() || stop != end || socket <= STDERR_FILENO) return std::nullopt;
    return socket;
}

Outcome<Launch> detect_launch(const Environment& environment) {
    if (started_by_pmix(environment)) return Launch::pmix;
    if (environment("MPI_BRIDGE_ALONE") == "1") return Launch::alone;
    if (pmi2_socket(environment)) {
        // Slurm's map of processes is that of the first component (pmi2_setup_srun in Slurm).
        if (!environment("SLURM_HET_SIZE")) return Launch::pmi2;
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "Slurm's PMI-2 does not wire up the components of a heterogeneous job: start "
                    "the step with --mpi=pmix");
    }

    // This variable is set only for the tasks of a step; SLURM_NTASKS and SLURM_PROCID are set in
    // batch scripts too.
    if (const int tasks = number(environment("SLURM_STEP_NUM_TASKS")); tasks > 1) {
        return refuse(tasks, "Slurm", remedy_for_slurm(environment));
    }
    for (const auto& launcher : other_launchers) {
        if (const int tasks = number(environment(launcher.size_variable)); tasks > 1) {
            return refuse(tasks, launcher.name,
                          "start them with `srun --mpi=pmix` or another PMIx launcher, such as "
                          "prterun");
        }
    }
    return Launch::alone;
}

std::string alone_among_idle_tasks(const Environment& environment) {
    if (environment("MPI_BRIDGE_ALONE") == "1" || environment("SLURM_STEP_NUM_TASKS")) return {};
    const int tasks = number(environment("SLURM_NTASKS"));
    if (tasks <= 1) return {};
    return "this process runs alone as rank 0 of 1, though its Slurm job has " +
           std::to_string(tasks) +
           " tasks: start it with `srun --mpi=pmix` if it is to run in all of them, or set "
           "MPI_BRIDGE_ALONE=1 to be told no more";
}

}  // namespace mpi_bridge

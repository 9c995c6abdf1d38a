// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/launch.hpp"

#include <charconv>
#include <cstdlib>

namespace mpi_bridge {
namespace {

int number(const std::optional<std::string>& text) {
    int value = 0;
    if (text) std::from_chars(text->data(), text->data() + text->size(), value);
    return value;
}

tl::unexpected<Failure> refuse(int tasks, const std::string& launcher, const std::string& remedy) {
    return fail(MPIB_ERROR_BOOTSTRAP,
                launcher + " started " + std::to_string(tasks) +
                    " tasks without PMIx, so each would run alone as rank 0 of 1; " + remedy +
                    ", or set MPI_BRIDGE_ALONE=1 if this process is meant to be alone");
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return std::string(value);
}

Outcome<Launch> detect_launch(const Environment& environment) {
    if (environment("PMIX_RANK") && environment("PMIX_NAMESPACE")) return Launch::pmix;
    if (environment("MPI_BRIDGE_ALONE") == "1") return Launch::alone;

    // SLURM_PROCID is set for tasks only, not in the shell that salloc opens.
    if (environment("SLURM_PROCID")) {
        const auto step_tasks = environment("SLURM_STEP_NUM_TASKS");
        const int tasks = number(step_tasks ? step_tasks : environment("SLURM_NTASKS"));
        if (tasks > 1) return refuse(tasks, "Slurm", "start them with `srun --mpi=pmix`");
    }
    // PMI-1 and PMI-2 launchers, Hydra among them.
    if (const int tasks = number(environment("PMI_SIZE")); tasks > 1) {
        return refuse(tasks, "a PMI launcher", "start them with a PMIx launcher, such as prterun");
    }
    return Launch::alone;
}

}  // namespace mpi_bridge

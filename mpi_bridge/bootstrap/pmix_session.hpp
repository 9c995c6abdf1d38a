// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include <pmix.h>
#include <sys/types.h>

#include "bootstrap/topology.hpp"
#include "core/deadline.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

// This process's connection to the PMIx server of its launcher. A process has one and makes it
// once: a server that saw all ranks of its host finalise forgets what it knew of the job (seen with
// OpenPMIx 4.2.2 under Slurm 22.05: no PMIX_JOB_SIZE after a second PMIx_Init). So the connection
// outlives the library's initialisations and is closed when the process ends:
//   - at exit(), by an exit handler that open() registers;
//   - on a signal that ends the process, see take_leave_on_signals();
//   - never after _exit() and SIGKILL: launchers take that for a crash and end the step.
class PmixSession {
  public:
    // Connects, or returns the connection there is. Fails with MPIB_ERROR_BOOTSTRAP, both versions
    // and likely reasons in the text; a server that does not answer by the deadline is
    // MPIB_ERROR_TIMEOUT, and no further attempt is possible in this process then. One thread at a
    // time.
    [[nodiscard]] static Outcome<PmixSession*> open(Deadline deadline);

    [[nodiscard]] const pmix_proc_t& self() const { return self_; }
    [[nodiscard]] const Topology& topology() const { return topology_; }

    // Tells the server that this process leaves, for at most two seconds. From any thread; only the
    // first call acts, and none in a forked child.
    void leave();

  private:
    PmixSession(const pmix_proc_t& self, Topology topology);

    pmix_proc_t self_;
    Topology topology_;
    pid_t owner_;
    std::atomic<bool> left_{false};
};

// "…: PMIX_ERR_… (-n); " and both versions. PMIX_ERR_TIMEOUT is MPIB_ERROR_TIMEOUT.
[[nodiscard]] tl::unexpected<Failure> pmix_failure(std::string_view call, pmix_status_t status);

[[nodiscard]] pmix_proc_t process_of(const pmix_proc_t& self, pmix_rank_t rank);

}  // namespace mpi_bridge

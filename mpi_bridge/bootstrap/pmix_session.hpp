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

// This process's connection to the PMIx server of its launcher. A process opens it once, because a
// server that has seen all ranks of its host finalise forgets what it knew of the job (seen with
// OpenPMIx 4.2.2 under Slurm 22.05: no PMIX_JOB_SIZE after a second PMIx_Init). So the connection
// outlives mpib_finalize() and is closed when the process ends:
//   - at exit(), by an exit handler that open() registers;
//   - on a signal that ends the process, see take_leave_on_signals();
//   - never after _exit() and SIGKILL: launchers take that for a crash and end the step.
class PmixSession {
  public:
    // Connects, or returns the existing connection. Fails with MPIB_ERROR_BOOTSTRAP, with both
    // versions and likely reasons in the text. If the server does not answer by the deadline, this
    // is MPIB_ERROR_TIMEOUT, and no further attempt is possible in this process. One thread at a
    // time may call.
    [[nodiscard]] static Outcome<PmixSession*> open(Deadline deadline);

    [[nodiscard]] const pmix_proc_t& self() const { return self_; }
    [[nodiscard]] const Topology& topology() const { return topology_; }

    // Tells the server that this process leaves; takes two seconds at most. Any thread may call.
    // Only the first call acts, and none does in a forked child.
    void leave();

  private:
    PmixSession(const pmix_proc_t& self, Topology topology);

    pmix_proc_t self_;
    Topology topology_;
    pid_t owner_;
    std::atomic<bool> left_{false};
};

// The text is "…: PMIX_ERR_… (-n); " and both versions. PMIX_ERR_TIMEOUT becomes
// MPIB_ERROR_TIMEOUT.
[[nodiscard]] tl::unexpected<Failure> pmix_failure(std::string_view call, pmix_status_t status);

[[nodiscard]] pmix_proc_t process_of(const pmix_proc_t& self, pmix_rank_t rank);

}  // namespace mpi_bridge

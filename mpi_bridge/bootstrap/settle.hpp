// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mpi_bridge {

// Under Slurm, returns when this process is at least 60 ms old; at once anywhere else.
//
// While slurmstepd starts the tasks of its node it has the user's effective id, and its PMIx server
// then refuses the connections that other nodes make for a fence ("Munge decode failed:
// Unauthorized credential"); they are not made again, and the fence hangs. Measured with Slurm
// 22.05.8 on four hosts: a fence right after PMIx_Init failed in 3 of 40 steps, 50 ms later in
// none.
void let_slurm_settle();

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "core/deadline.hpp"
#include "liveness/identity.hpp"

namespace mpi_bridge {

// What is known about a rank that this one waits for.
struct Finding {
    enum class Verdict {
        absent,  // it answers, and is in no call that waits for another rank
        waits,   // it answers, and waits for another rank itself
        silent,  // it does not answer
    };

    int rank = 0;
    RankIdentity identity;
    Seconds waited{0};  // how long this rank has waited for it
    Verdict verdict = Verdict::absent;
    int waits_for = -1;                   // if it waits
    char state = process_state::unknown;  // of its process
    Seconds state_for{0};                 // in this state for at least this long
    int silent_neighbour = -1;            // another rank of its host, which does not answer either
};

// One line for each finding, such as
//   mpi_bridge: rank 0: a call has waited for 60 s for rank 3 (host n2, process 411), which
//   has been stopped by a signal; "kill -CONT 411" on its host lets it go on
// There are at most ten such lines; a last line counts the other findings. Each line ends with a
// newline.
[[nodiscard]] std::string findings_text(int own_rank, std::span<const Finding> findings);

}  // namespace mpi_bridge

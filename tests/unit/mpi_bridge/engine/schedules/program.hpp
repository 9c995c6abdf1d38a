// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi_bridge_engine.h"

// What the ranks of a schedule do, made from a seed.
namespace schedules {

struct Operation {
    enum class What : std::uint8_t {
        submit,      // and go on
        wait,        // for what this thread has submitted under `name`, and release it
        add_set,     // of `ranks`, which becomes `set`
        remove_set,  // `set`
    };
    What what = What::submit;
    int set = 0;  // the program's number of the process set; 0 is the world
    std::string name;
    mpib_kind kind = MPIB_ALLREDUCE;
    std::int64_t count = 1;
    bool device = false;  // MPIB_DEVICE
    std::string group;
    int group_size = 0;
    std::vector<int> ranks;
};

using Thread = std::vector<Operation>;
// The threads of a rank run at the same time. A rank begins its next phase when they have ended.
using Phase = std::vector<Thread>;

struct Program {
    std::vector<std::vector<Phase>> phases;     // of each rank
    std::vector<std::vector<int>> set_members;  // by the program's number of the process set
    int lost_rank = -1;                         // it is lost after that many events of all ranks
    int lost_after = 0;
    std::uint64_t first_bucket = 0;
    std::uint64_t other_buckets = 0;
    std::size_t names = 0;  // capacity of the pending table
    // Every request succeeds on every rank; otherwise the same ones fail on all.
    bool all_succeed = true;
};

// Two to eight ranks.
[[nodiscard]] Program make_program(std::uint64_t seed);

// The program in words, to understand a schedule that fails.
[[nodiscard]] std::string shown(const Program& program);

}  // namespace schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/select/model.hpp"
#include "core/failure.hpp"

namespace mpi_bridge_scale {

enum class Collective { allreduce, alltoall };

struct Arguments {
    bool help = false;
    Collective collective = Collective::allreduce;
    std::vector<std::size_t> ranks = {4, 16, 64, 256, 1000, 4096, 10000};
    std::vector<std::size_t> bytes = {8, 64UL << 10, 1UL << 20, 64UL << 20};
    mpi_bridge::Model model = mpi_bridge::tcp_model();
    std::size_t ranks_per_node = 1;
    std::size_t most_messages = 20'000'000;
};

extern const char* const help;

[[nodiscard]] mpi_bridge::Outcome<Arguments> read_arguments(
    const std::vector<std::string_view>& words);

}  // namespace mpi_bridge_scale

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace mpi_bridge {

// The algorithms for each collective, in the order in which they are preferred if they cost the
// same; collectives/algorithms/ describes how each works.
enum class AllreduceAlgorithm {
    recursive_doubling,
    recursive_quadrupling,
    halving_doubling,
    direct,
    ring
};
enum class ReduceAlgorithm { binomial, halving };
enum class ReduceScatterAlgorithm { halving, ring };
enum class AllgatherAlgorithm { bruck, ring };
enum class BroadcastAlgorithm { binomial, scatter_allgather, chain };

// The names of the algorithms, by number, and the environment variable that overrides the choice
// ("" for none).
template <typename Algorithm>
struct Names;
template <>
struct Names<AllreduceAlgorithm> {
    static constexpr std::string_view collective = "allreduce";
    static constexpr std::string_view variable = "MPI_BRIDGE_ALLREDUCE";
    static constexpr std::array<std::string_view, 5> all = {
        "recursive_doubling", "recursive_quadrupling", "halving_doubling", "direct", "ring"};
};
template <>
struct Names<ReduceAlgorithm> {
    static constexpr std::string_view collective = "reduce";
    static constexpr std::string_view variable{};
    static constexpr std::array<std::string_view, 2> all = {"binomial", "halving"};
};
template <>
struct Names<ReduceScatterAlgorithm> {
    static constexpr std::string_view collective = "reduce_scatter";
    static constexpr std::string_view variable{};
    static constexpr std::array<std::string_view, 2> all = {"halving", "ring"};
};
template <>
struct Names<AllgatherAlgorithm> {
    static constexpr std::string_view collective = "allgather";
    static constexpr std::string_view variable{};
    static constexpr std::array<std::string_view, 2> all = {"bruck", "ring"};
};
template <>
struct Names<BroadcastAlgorithm> {
    static constexpr std::string_view collective = "broadcast";
    static constexpr std::string_view variable{};
    static constexpr std::array<std::string_view, 3> all = {"binomial", "scatter_allgather",
                                                            "chain"};
};

template <typename Algorithm>
[[nodiscard]] constexpr std::string_view name_of(Algorithm algorithm) {
    return Names<Algorithm>::all[static_cast<std::size_t>(algorithm)];
}

}  // namespace mpi_bridge

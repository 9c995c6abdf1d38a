// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/conversation.hpp"
#include "collectives/reducer.hpp"
#include "collectives/select/cost.hpp"

// The algorithms to choose from: a table for each collective that has several, with one row for
// each algorithm. A new algorithm is a file in collectives/algorithms/ and a row in algorithms.cpp.
namespace mpi_bridge {

// The collectives: their names, the environment variables that override the choice ("" for none),
// and how their algorithms are called.

// Reduces `count` values; recv may be send. All ranks get the same bits, in every run.
struct Allreduce {
    static constexpr std::string_view name = "allreduce";
    static constexpr std::string_view variable = "MPI_BRIDGE_ALLREDUCE";
    using Run = Done(Conversation& talk, const Reducer& reducer, const std::byte* send,
                     std::byte* recv, std::size_t count);
};
// Reduces `count` values; the result is in recv of the root only, which may be its send. The other
// ranks do not use recv.
struct Reduce {
    static constexpr std::string_view name = "reduce";
    static constexpr std::string_view variable{};
    using Run = Done(Conversation& talk, const Reducer& reducer, const std::byte* send,
                     std::byte* recv, std::size_t count, int root);
};
// counts[r] values of the result go to rank r; recv must not overlap send.
struct ReduceScatter {
    static constexpr std::string_view name = "reduce_scatter";
    static constexpr std::string_view variable{};
    using Run = Done(Conversation& talk, const Reducer& reducer, const std::byte* send,
                     std::byte* recv, std::span<const std::size_t> counts);
};
// parts[r] is where rank r's contribution belongs; this rank's own part is already in place.
struct Allgather {
    static constexpr std::string_view name = "allgather";
    static constexpr std::string_view variable{};
    using Run = Done(Conversation& talk, std::span<const Bytes> parts);
};
struct Broadcast {
    static constexpr std::string_view name = "broadcast";
    static constexpr std::string_view variable{};
    using Run = Done(Conversation& talk, Bytes data, int root);
};
// out[r] goes to rank r, in[r] comes from rank r; this rank's own part is copied. The lengths need
// not be known for an algorithm that does not send messages through other ranks.
struct Alltoall {
    static constexpr std::string_view name = "alltoall";
    static constexpr std::string_view variable{};
    using Run = Done(Conversation& talk, std::span<const ConstBytes> out, std::span<const Bytes> in,
                     MessageLengths lengths);
};

template <typename Collective>
struct Algorithm {
    std::string_view name;
    Estimate (*estimate)(const Case& call);
    typename Collective::Run* run;
};
template <>
struct Algorithm<Allreduce> {
    std::string_view name;
    Estimate (*estimate)(const Case& call);
    Allreduce::Run* run;
    // The algorithms for the two halves of an allreduce that is a reduce-scatter and then an
    // allgather; nullptr for one that is not.
    ReduceScatter::Run* reduce_scatter = nullptr;
    Allgather::Run* allgather = nullptr;
};
template <>
struct Algorithm<Alltoall> {
    std::string_view name;
    Estimate (*estimate)(const Case& call);
    Alltoall::Run* run;
    bool sends_through_others = false;
};

// The algorithms of a collective, in the order in which they are preferred if they cost the same;
// collectives/algorithms/ describes how each works.
template <typename Collective>
[[nodiscard]] std::span<const Algorithm<Collective>> algorithms();
template <>
[[nodiscard]] std::span<const Algorithm<Allreduce>> algorithms<Allreduce>();
template <>
[[nodiscard]] std::span<const Algorithm<Reduce>> algorithms<Reduce>();
template <>
[[nodiscard]] std::span<const Algorithm<ReduceScatter>> algorithms<ReduceScatter>();
template <>
[[nodiscard]] std::span<const Algorithm<Allgather>> algorithms<Allgather>();
template <>
[[nodiscard]] std::span<const Algorithm<Broadcast>> algorithms<Broadcast>();
template <>
[[nodiscard]] std::span<const Algorithm<Alltoall>> algorithms<Alltoall>();

// Returns nullptr if the collective has no algorithm of that name.
template <typename Collective>
[[nodiscard]] const Algorithm<Collective>* find_algorithm(std::string_view name) {
    for (const auto& algorithm : algorithms<Collective>()) {
        if (algorithm.name == name) return &algorithm;
    }
    return nullptr;
}

}  // namespace mpi_bridge

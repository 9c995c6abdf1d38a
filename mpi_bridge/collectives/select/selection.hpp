// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "collectives/select/algorithms.hpp"
#include "collectives/select/cost.hpp"
#include "collectives/select/model.hpp"
#include "core/failure.hpp"

// Which algorithm is used for which length of a vector: the user's choice, or the one that costs
// least by a model of the network.
//
//   selection.hpp    the tables by length, and the choice from them
//   algorithms.hpp   the algorithms to choose from, with what each of them costs
//   cost.hpp         what a call costs, as numbers of messages and bytes
//   model.hpp        what a message and a reduction cost on a network
//   measurement.hpp  measures that between the ranks
namespace mpi_bridge {

// Which algorithm of a collective is used for which vector lengths. The table must be the same on
// all ranks; a difference is detected like that of any other argument.
template <typename Collective>
class Table {
  public:
    struct Range {
        std::size_t up_to_bytes = 0;  // the longest vector of this range
        const Algorithm<Collective>* algorithm = nullptr;
    };

    // Chooses the cheapest algorithms for that many ranks by their modelled costs. Limits are
    // powers of two.
    Table(const Model& model, int ranks, std::size_t segment_bytes);

    // Reads "recursive_doubling:16K,ring": algorithms with the longest vector of each, in ascending
    // order; the last has no length. Any other form is MPIB_ERROR_INVALID_ARGUMENT, and its text
    // names the environment variable that holds the value.
    [[nodiscard]] static Outcome<Table> parse(std::string_view text) requires(
        !Collective::variable.empty());

    [[nodiscard]] const Algorithm<Collective>& choose(std::size_t bytes) const;

    // Returns the form that parse() reads.
    [[nodiscard]] std::string text() const;

  private:
    explicit Table(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

    std::vector<Range> ranges_;  // never empty; the last one has no limit
};

using AllreduceTable = Table<Allreduce>;

// Chooses algorithms for groups of any number of ranks. The choices are a table per collective and
// number of ranks, made from the model when it is first asked for. Only one thread at a time may
// use it.
class Selection {
  public:
    Selection(const Model& model, std::size_t segment_bytes)
        : model_(model), segment_bytes_(segment_bytes) {}

    // Makes a copy with another model; pinned tables are kept.
    Selection(const Model& model, const Selection& other)
        : model_(model),
          segment_bytes_(other.segment_bytes_),
          pinned_allreduce_(other.pinned_allreduce_) {}

    // Uses this table for every number of ranks, whatever the model says.
    void pin(AllreduceTable table) { pinned_allreduce_ = std::move(table); }

    [[nodiscard]] const Model& model() const { return model_; }

    // `bytes` is the length of the whole vector: the elements to reduce, or all parts of an
    // allgather together; for an alltoall, the longest message of any rank times their number.
    template <typename Collective>
    [[nodiscard]] const Algorithm<Collective>& choose(std::size_t bytes, int ranks);
    // The limit for an alltoall among hosts with at most that many ranks each; see cost.hpp.
    [[nodiscard]] std::size_t longest_joined_message(int ranks_of_host) const {
        return mpi_bridge::longest_joined_message(model_, ranks_of_host);
    }

    // One line per collective: its name and its table for that many ranks.
    [[nodiscard]] std::string text(int ranks);

  private:
    template <typename Collective>
    using Tables = std::map<int, Table<Collective>>;
    template <typename Collective>
    [[nodiscard]] const Table<Collective>& table(int ranks);

    Model model_;
    std::size_t segment_bytes_;
    std::optional<AllreduceTable> pinned_allreduce_;
    std::tuple<Tables<Allreduce>, Tables<Reduce>, Tables<ReduceScatter>, Tables<Allgather>,
               Tables<Broadcast>, Tables<Alltoall>>
        tables_;
};

}  // namespace mpi_bridge

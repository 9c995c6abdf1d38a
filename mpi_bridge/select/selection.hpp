// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/failure.hpp"
#include "select/algorithms.hpp"
#include "select/cost.hpp"
#include "select/model.hpp"

namespace mpi_bridge {

// Which algorithm of a collective serves vectors of which length. Must be the same on all ranks;
// ranks that disagree find out as they do about any other argument.
template <typename Algorithm>
class Table {
  public:
    struct Range {
        std::size_t up_to_bytes = 0;  // the longest vector of this range
        Algorithm algorithm{};
    };

    // The cheapest algorithms for that many ranks by their modelled costs. Limits are powers of
    // two.
    Table(const Model& model, int ranks, std::size_t segment_bytes);

    // "recursive_doubling:16K,ring": algorithms with the longest vector of each, growing; the last
    // without a length. A text of another form is MPIB_ERROR_INVALID_ARGUMENT, whose text names the
    // environment variable that it is the value of.
    [[nodiscard]] static Outcome<Table> parse(std::string_view text) requires(
        !Names<Algorithm>::variable.empty());

    [[nodiscard]] Algorithm choose(std::size_t bytes) const;

    // In the form that parse() reads.
    [[nodiscard]] std::string text() const;

  private:
    explicit Table(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

    std::vector<Range> ranges_;  // never empty; the last one has no limit
};

using AllreduceTable = Table<AllreduceAlgorithm>;

// Chooses algorithms for groups of any number of ranks. What is chosen is data: a table per
// collective and number of ranks, made from the model when it is first asked for. One thread at a
// time.
class Selection {
  public:
    Selection(const Model& model, std::size_t segment_bytes)
        : model_(model), segment_bytes_(segment_bytes) {}

    // The same with another model; what is pinned stays so.
    Selection(const Model& model, const Selection& other)
        : model_(model),
          segment_bytes_(other.segment_bytes_),
          pinned_allreduce_(other.pinned_allreduce_) {}

    // Takes this table for every number of ranks, whatever the model says.
    void pin(AllreduceTable table) { pinned_allreduce_ = std::move(table); }

    [[nodiscard]] const Model& model() const { return model_; }

    // `bytes` of the whole vector: the elements to reduce, or all parts of an allgather together.
    [[nodiscard]] AllreduceAlgorithm allreduce(std::size_t bytes, int ranks);
    [[nodiscard]] ReduceAlgorithm reduce(std::size_t bytes, int ranks);
    [[nodiscard]] ReduceScatterAlgorithm reduce_scatter(std::size_t bytes, int ranks);
    [[nodiscard]] AllgatherAlgorithm allgather(std::size_t bytes, int ranks);
    [[nodiscard]] BroadcastAlgorithm broadcast(std::size_t bytes, int ranks);

    // One line per collective: its name and its table for that many ranks.
    [[nodiscard]] std::string text(int ranks);

  private:
    template <typename Algorithm>
    using Tables = std::map<int, Table<Algorithm>>;
    template <typename Algorithm>
    [[nodiscard]] const Table<Algorithm>& table(Tables<Algorithm>& tables, int ranks);
    [[nodiscard]] const AllreduceTable& allreduce_table(int ranks);

    Model model_;
    std::size_t segment_bytes_;
    std::optional<AllreduceTable> pinned_allreduce_;
    Tables<AllreduceAlgorithm> allreduce_;
    Tables<ReduceAlgorithm> reduce_;
    Tables<ReduceScatterAlgorithm> reduce_scatter_;
    Tables<AllgatherAlgorithm> allgather_;
    Tables<BroadcastAlgorithm> broadcast_;
};

}  // namespace mpi_bridge

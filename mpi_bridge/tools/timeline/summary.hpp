// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/timeline/trace_event.hpp"

namespace mpi_bridge::timeline_tool {

// The time that one rank spent on one tensor, in microseconds, summed.
struct TimeSpent {
    std::uint64_t operations = 0;  // that have ended
    double negotiate = 0;          // submitted here, but not on all ranks
    double operation = 0;          // from there to the end; holds the next three
    double wait = 0;               // QUEUE and WAIT_FOR_...
    double copy = 0;               // into and out of buckets, to and from the host
    double transfer = 0;           // SHM_, UCX_, NCCL_...
    std::int64_t bytes = 0;

    // The average time of one operation from submission to end.
    [[nodiscard]] double mean() const {
        return operations == 0 ? 0 : (negotiate + operation) / static_cast<double>(operations);
    }
};

// Which ranks reported last in the negotiations of a tensor, according to the ticks.
struct LastTicks {
    std::map<int, std::uint64_t> times;  // by rank
    std::uint64_t negotiations = 0;
    double spread = 0;  // from the first tick to the last, microseconds, summed
};

// All operations of a name. Names that were numbered because the program gave none count as one:
// "allreduce.noname.*".
struct TensorSummary {
    std::string operation;  // "ALLREDUCE"
    std::map<int, TimeSpent> ranks;
    LastTicks ticks;
};

// The rank that the others waited for.
struct LateRank {
    int rank = -1;
    double by = 0;  // microseconds per operation, on average
    // The share of the negotiations in which it was the last; -1 when there are only times and no
    // ticks.
    double share = -1;
};

// Adds up the events of one or more ranks' timelines, or of a merged one. The order of ranks does
// not matter, but that of one rank's events does. No common clock is needed, because only
// durations, and ticks of one rank, are compared between ranks. Memory grows with the number of
// tensors, not of events.
class Summary {
  public:
    void add(const TraceEvent& event);
    // To be called once, after the last event.
    void finish();

    [[nodiscard]] const std::map<std::string, TensorSummary>& tensors() const { return tensors_; }
    [[nodiscard]] const std::map<int, std::string>& processes() const { return processes_; }
    // Activities that have no end in the files, such as a negotiation that was under way when the
    // job was killed: the ranks they were on, by tensor and activity.
    using Unfinished = std::map<std::pair<std::string, std::string>, std::set<int>>;
    [[nodiscard]] const Unfinished& unfinished() const { return unfinished_; }
    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
    [[nodiscard]] std::uint64_t failed() const { return failed_; }
    // The time in microseconds from the first event of a rank to its last, for the rank with the
    // longest time.
    [[nodiscard]] double duration() const;

  private:
    struct Open {
        std::string name;
        double since = 0;
    };
    struct Row {
        std::string tensor;  // "": the engine's
        std::vector<Open> open;
        std::optional<double> first_tick;
        double last_tick = 0;
        int last_rank = -1;
    };

    void add_metadata(const TraceEvent& event);
    void add_begin(const TraceEvent& event, Row& row);
    void add_end(const TraceEvent& event, Row& row);
    static void add_tick(const TraceEvent& event, Row& row);
    void end_negotiation(Row& row);
    void add_time(const Row& row, int rank, const std::string& activity, double time,
                  bool outermost);

    std::map<std::pair<int, std::int64_t>, Row> rows_;  // by rank and number
    std::map<std::string, TensorSummary> tensors_;
    std::map<int, std::string> processes_;
    std::map<int, std::pair<double, double>> extent_;  // of each rank's events
    Unfinished unfinished_;
    std::uint64_t dropped_ = 0;
    std::uint64_t failed_ = 0;
};

// Finds the rank by the ticks if there are any, and otherwise by the times: all ranks end an
// operation at about the same moment, so the rank whose operations take the shortest time is the
// one that submits them last. Returns nullopt if there are neither ticks nor operations of two
// ranks.
[[nodiscard]] std::optional<LateRank> late_rank(const TensorSummary& tensor);

}  // namespace mpi_bridge::timeline_tool

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "status/history/facts.hpp"

// Finds the training steps in the timeline of a rank, which is a file in Chrome's trace format with
// one event on each line (mpi_bridge/trace/timeline_text.hpp). Whatever a line has, it does no more
// harm than to be passed over.
//
// A step ends when an operation is submitted whose name the step already has. The rank's own work
// in it is the time in which the rank did not have to wait for its operations. A rank waits when
// it has submitted something, submits nothing more, and goes on after everything has ended. As
// backward goes on while its gradients travel, only the longest such pause in a step and the last
// one count as waiting.
namespace batchai::status {

class TimelineParser {
  public:
    // Reads lines. A line that does not end in `text` is passed over.
    void read(std::string_view text);
    // Says that what is read next does not follow what was read before.
    void gap();
    // Returns what was found; nothing if there was no event "clock" to count the times from.
    [[nodiscard]] std::optional<RankTimeline> take();

  private:
    struct Line;
    struct Row {
        std::size_t key = 0;  // of the operation's name without a number
        bool engine = false;
        int depth = 0;
        bool negotiates = false;  // the outermost activity is the negotiation
        std::vector<char> open;   // of each activity inside: what it is
        std::vector<double> since;
        bool pending = false;  // submitted, not ended
        double bytes = 0;      // of each operation; 0: unknown
        double ready = 0;      // when its data was there
    };
    struct Step {
        std::unordered_set<std::size_t> keys;
        double last_end = 0;
        double transfer = 0;
        double bytes = 0;
        double longest_pause = 0;
        double last_pause = 0;
        bool any_end = false;
    };

    void read_line(std::string_view text);
    void read_metadata(const Line& line);
    void begin(const Line& line, Row& row);
    void end(const Line& line, Row& row);
    void submitted(Row& row, double time);
    void ended(Row& row, double time);
    void close_step();
    void take_bytes(const Line& line, Row& row);
    [[nodiscard]] base::Time at(double microseconds) const;
    [[nodiscard]] std::size_t key_of(std::string_view name);

    bool has_clock_ = false;
    std::int64_t realtime_microseconds_ = 0;
    RankTimeline out_;
    std::unordered_map<unsigned, Row> rows_;
    std::unordered_map<std::string, std::size_t> keys_;
    Step step_;
    std::optional<double> previous_end_;
    int pending_ = 0;
    // Tensors of one bucket are moved together, and their rows all show it.
    int moving_ = 0;
    double moving_since_ = 0;
    double last_ready_ = 0;
};

}  // namespace batchai::status

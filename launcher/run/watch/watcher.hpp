// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "record/rank_logs.hpp"
#include "run/context.hpp"
#include "run/phases/phase.hpp"
#include "run/watch/line_stream.hpp"
#include "run/watch/stack_look.hpp"
#include "run/watch/stall.hpp"
#include "run/watch/work.hpp"

namespace batchai::run {

// Watches the ranks of one start, if the job has "watch". When they stand still, it asks all nodes
// where they are, writes that into the logs and the record and, if the job wants so, says that they
// are to be ended.
class Watcher {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Watcher(Context& context);

    // A rank has printed these bytes.
    void saw(std::size_t rank, record::RankStream stream, std::string_view bytes);
    // Must be called now and then while the ranks run. Does not wait.
    void poll();
    // Returns why the ranks are to be ended, once they are.
    [[nodiscard]] const std::optional<Ending>& ending() const { return ending_; }

  private:
    void look_at_work(Clock::time_point now);
    void note_unknown(bool unknown, Clock::time_point now);
    void look_at_stacks();
    void tell();
    void say(const std::string& line);

    Context& context_;
    std::optional<StallClock> stalls_;  // none: the job has no "watch"
    std::optional<LineStream> lines_;
    WorkMeter work_;
    Clock::time_point next_work_look_;
    bool looks_at_work_ = false;
    std::optional<Clock::time_point> unknown_since_;  // nobody knows what the ranks do
    bool warned_ = false;                             // of that
    std::optional<StallChange> stall_;                // for whose stacks the nodes are asked
    std::optional<StackLook> look_;
    int told_ = 0;  // stalls whose stacks have been written
    std::optional<Ending> ending_;
};

}  // namespace batchai::run

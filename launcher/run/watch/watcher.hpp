// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/stopped_time.hpp"
#include "record/rank_logs.hpp"
#include "run/context.hpp"
#include "run/notify/alarm_webhook.hpp"
#include "run/phases/phase.hpp"
#include "run/watch/line_stream.hpp"
#include "run/watch/stack_look.hpp"
#include "run/watch/stall.hpp"
#include "run/watch/usage_watch.hpp"

namespace batchai::run {

// Watches the ranks of one start, if the job has "watch". When they stand still, or one of them is
// much slower than the others, it asks all nodes where they are, writes that into the logs and the
// record and, if the job wants so, says that they are to be ended.
class Watcher {
  public:
    using Clock = std::chrono::steady_clock;

    // `step` is that of the ranks.
    Watcher(Context& context, const plan::Step& step);

    // A rank has printed these bytes. None: it has printed something.
    void saw(std::size_t rank, record::RankStream stream, std::string_view bytes);
    // Must be called now and then while the ranks run. Does not wait. The ranks are ended only if
    // they may be.
    void poll(bool may_end);
    // The ranks have ended, perhaps before the nodes have said where they were. `in_a_hurry`: so
    // will this process soon.
    void finish(bool in_a_hurry);
    // Returns whether the ranks stand still, as was told.
    [[nodiscard]] bool stands_still() const { return stands_still_; }
    // Returns why the ranks are to be ended, once they are.
    [[nodiscard]] const std::optional<Ending>& ending() const { return ending_; }

  private:
    // Returns the time. Leaves out that in which this process was stopped.
    [[nodiscard]] Clock::time_point look_at_clock();
    [[nodiscard]] bool ranks_have_begun(Clock::time_point now);
    // Returns what has changed.
    [[nodiscard]] std::optional<StallChange> change(Clock::time_point now);
    [[nodiscard]] bool lasts(Stalled what, Clock::time_point now) const;
    // Returns why ranks stay although one of them is slow; empty: they do not.
    [[nodiscard]] std::string why_slow_ranks_stay(const record::Alarm& alarm) const;
    void look_at_stacks();
    // Tells of the stall with what the nodes have said until now.
    void tell();
    // Ends the ranks if they still stand still.
    void decide(Clock::time_point now);

    Context& context_;
    bool on_;  // the job has "watch", and there have not been too many alarms
    LineStream lines_;
    std::optional<StallClock> stalls_;  // none before the ranks have begun
    Clock::time_point next_look_for_start_;
    base::StoppedTime stopped_;
    std::optional<UsageWatch> usage_;    // none: there is no "watch"
    std::optional<StallChange> stall_;   // of which is to be told
    std::optional<StackLook> look_;      // for that
    std::optional<StackLook> old_look_;  // whose step is ending
    AlarmWebhook webhook_;
    int alarms_ = 0;
    int slow_alarms_ = 0;
    bool tells_of_slow_ranks_ = true;
    bool stands_still_ = false;
    struct ToEnd {
        Stalled what;
        record::Alarm alarm;
        int looks = 0;      // at what the ranks do, since the alarm
        bool said = false;  // why they are not ended yet
    };
    std::vector<ToEnd> to_end_;  // if they do not go on
    std::optional<Ending> ending_;
};

}  // namespace batchai::run

// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/judge.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/record.hpp"
#include "record/ended_by.hpp"

namespace batchai::status {

namespace {

using record::Attempt;
using record::EndedBy;

// A phase before the ranks is worth a word if it takes this share of the attempt, and this long.
constexpr double long_share = 0.2;
constexpr double long_seconds = 5;
// A node is slow in a phase if it takes this many times the median, and this much longer.
constexpr double slow_node_ratio = 1.5;
// A part of a training step that is worth a word.
constexpr double step_share = 0.25;
constexpr double waiting_share = 0.1;

int rounded_percent(double share) {
    return static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 100));
}

class Judge {
  public:
    Judge(const Facts& facts, const std::vector<AttemptBars>& attempts, const Speed& speed)
        : facts_(facts), attempts_(attempts), speed_(speed) {}

    std::vector<Advice> take() {
        ends();
        if (!attempts_.empty()) {
            constexpr std::string_view into_an_image =
                "What it installs could be in an image (containerSettings) or on a volume, so that "
                "it is there when the job starts.";
            long_phase("preparation", "Preparation", into_an_image);
            long_phase("software", "Setting up the job's software", into_an_image);
            long_phase("image", "Importing the image",
                       "Import it before the job with `batchai image pull`.");
            slow_nodes("preparation");
        }
        slow_ranks();
        communication();
        for (const std::string& sentence : facts_.advice_on_use)
            add("use", sentence);
        return std::move(out_);
    }

  private:
    void add(std::string_view code, std::string text) {
        out_.push_back({std::string(code), std::move(text)});
    }

    void ends() {
        int preempted = 0;
        bool timed_out = false;
        bool memory = false;
        const record::Alarm* alarm = nullptr;
        for (const Attempt& attempt : facts_.attempts) {
            if (!attempt.alarms.empty()) alarm = &attempt.alarms.back();
            if (attempt.ended_by == EndedBy::preemption) ++preempted;
            if (attempt.ended_by == EndedBy::time_limit) timed_out = true;
            if (attempt.ended_by == EndedBy::memory) memory = true;
        }
        if (facts_.job.ended_by == base::word_of(EndedBy::time_limit)) timed_out = true;
        if (facts_.job.ended_by == base::word_of(EndedBy::memory)) memory = true;
        if (timed_out)
            add("timeLimit",
                fmt::format(
                    "The job reached its time limit{}. Raise constraints.maxWallClockTime{}.",
                    facts_.asked.limit_seconds > 0
                        ? " of " + duration_text(static_cast<double>(facts_.asked.limit_seconds))
                        : std::string(),
                    facts_.asked.checkpoint
                        ? ""
                        : ", or let \"checkpoint\" and \"retry\" continue it from its last "
                          "checkpoint"));
        if (preempted > 0 && !facts_.asked.checkpoint)
            add("preemption",
                fmt::format("The job was pre-empted {}. With \"checkpoint\" its ranks get a signal "
                            "before that and can save their state.",
                            preempted == 1 ? "once" : fmt::format("{} times", preempted)));
        if (memory)
            add("memory",
                "The job used more memory than it was given. Raise \"mem\" of \"slurm\" in the job "
                "file, or put fewer ranks on a node.");
        if (alarm != nullptr)
            add("stall",
                fmt::format("\"watch\" raised an alarm: {}.{}", record::sentence_of(*alarm),
                            alarm->stacks.empty()
                                ? std::string()
                                : fmt::format(" {} among its logs shows where each rank "
                                              "was.",
                                              alarm->stacks)));
    }

    // The share is of the newest attempt.
    void long_phase(std::string_view phase, std::string_view what, std::string_view advice) {
        const AttemptBars& attempt = attempts_.back();
        if (attempt.rows.empty() || attempt.seconds() <= 0) return;
        double seconds = 0;
        for (const record::Phase& one : facts_.attempts.back().phases) {
            if (one.name == phase)
                seconds += seconds_between(one.start, one.end.value_or(attempt.end));
        }
        const double share = seconds / attempt.seconds();
        if (share < long_share || seconds < long_seconds) return;
        add(phase, fmt::format("{} took {} % of attempt {} ({} of {}). {}", what,
                               rounded_percent(share), attempt.number, duration_text(seconds),
                               duration_text(attempt.seconds()), advice));
    }

    void slow_nodes(std::string_view phase) {
        std::vector<double> times;
        std::string slowest;
        double longest = 0;
        for (const NodeRow& row : attempts_.back().rows) {
            for (const Bar& bar : row.bars) {
                if (bar.phase != phase || bar.open) continue;
                const double seconds = seconds_between(bar.begin, bar.end);
                times.push_back(seconds);
                if (seconds <= longest) continue;
                longest = seconds;
                slowest = row.node;
            }
        }
        const double usual = median(times);
        if (times.size() < 2 || longest < usual * slow_node_ratio || longest - usual < long_seconds)
            return;
        add("slowNode",
            fmt::format("Preparation took {} on {} and {} on the median node. The other nodes "
                        "waited for it; compare its files and its network with theirs.",
                        duration_text(longest), slowest, duration_text(usual)));
    }

    void slow_ranks() {
        constexpr std::size_t most = 5;
        std::vector<const RankSpeed*> slow;
        for (const RankSpeed& rank : speed_.ranks) {
            if (rank.slow_since) slow.push_back(&rank);
        }
        std::sort(slow.begin(), slow.end(),
                  [](const auto* a, const auto* b) { return a->ratio > b->ratio; });
        for (std::size_t i = 0; i < slow.size() && i < most; ++i) {
            const RankSpeed& rank = *slow[i];
            const auto& since = *rank.slow_since;
            add("slowRank",
                fmt::format(
                    "Rank {} on {} was {:.1f} times slower than the median of the other ranks "
                    "from {} on, and the others waited for it. Compare its share of the data and "
                    "what else ran on {}; \"exclude\" of \"slurm\" keeps the job off a node.",
                    rank.rank, rank.host.empty() ? "its node" : rank.host, rank.ratio,
                    since.step > 0 ? fmt::format("step {}", since.step) : time_text(since.time),
                    rank.host.empty() ? "its node" : rank.host));
        }
        if (slow.size() > most)
            add("slowRank", fmt::format("{} more ranks were slow.", slow.size() - most));
        if (!slow.empty()) return;
        if (!speed_.known() && !facts_.advice_on_waits.empty())
            return add("slowRank", facts_.advice_on_waits);
        const double share = speed_.share(speed_.waiting);
        if (share >= waiting_share)
            add("waiting",
                fmt::format("The ranks waited {} % of each step for the slowest one, which was not "
                            "always the same. Batches of equal size, and data that is read ahead, "
                            "make their steps more equal.",
                            rounded_percent(share)));
    }

    void communication() {
        const double share = speed_.share(speed_.communication);
        if (share < step_share) return;
        add("communication",
            fmt::format("Communication was not hidden: the ranks waited for it in {} % of each "
                        "step ({} of {}). Larger batches or backward_passes_per_step exchange "
                        "gradients less often, compression=hvd.Compression.fp16 halves them, and "
                        "fewer nodes with more ranks on each keep more of them in memory.",
                        rounded_percent(share), duration_text(speed_.communication),
                        duration_text(speed_.total)));
    }

    const Facts& facts_;
    const std::vector<AttemptBars>& attempts_;
    const Speed& speed_;
    std::vector<Advice> out_;
};

}  // namespace

std::vector<Advice> advice_for(const Facts& facts, const std::vector<AttemptBars>& attempts,
                               const Speed& speed) {
    return Judge(facts, attempts, speed).take();
}

std::string why_no_speed(const Facts& facts, const Speed& speed) {
    if (speed.known()) return {};
    const Timelines& timelines = facts.timelines;
    if (!timelines.asked_for)
        return "Nothing is known about the ranks' steps, because the job has no timeline. Scripts "
               "that use horovod or mpi_bridge write one if the job file has the environment "
               "variable MPI_BRIDGE_TIMELINE with the value $AZ_BATCHAI_STDOUTERR_DIR/timeline.";
    if (!timelines.missing.empty())
        return fmt::format("The job has a timeline, but it cannot be read: {}.", timelines.missing);
    return "The job has a timeline, but there are no repeated operations in it yet, so no steps "
           "can "
           "be told apart.";
}

}  // namespace batchai::status

// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>

#include "job/schema/checks.hpp"
#include "job/schema/field_binding.hpp"
#include "job/schema/field_table.hpp"

namespace batchai::job {

namespace {

constexpr std::array watch_progress_fields = {
    text<&WatchSettings::pattern>("pattern",
                                  "Regular expression in the syntax of RE2 that a line of the "
                                  "job's progress matches",
                                  R"x("^step [0-9]+")x")
        .required()
        .checked(Check::line_pattern),
    duration<&WatchSettings::within>("within", shortest_watch.count(), longest_watch.count(),
                                     "How long there may be no such line after the last one",
                                     R"("PT5M")")
        .required(),
    duration<&WatchSettings::first>("first", shortest_watch.count(), longest_watch.count(),
                                    "How long there may be no such line after the ranks' start",
                                    R"("PT30M")")
        .defaults_to("any time"),
};
constexpr Object watch_progress_object = {
    "WatchProgress", "Lines of any rank's output that a job prints as long as it goes on.",
    watch_progress_fields};

constexpr std::array watch_slow_rank_fields = {
    integer<&WatchSettings::slow_percent>(
        "percent", 110, 10'000,
        "How long a rank may need between collectives of mpi_bridge, in percent of what the median "
        "of the others needs",
        "150")
        .required(),
    duration<&WatchSettings::slow_over>("over", shortest_slow_rank.count(), longest_watch.count(),
                                        "For how long it must be slower to count as slow",
                                        R"("PT5M")")
        .defaults_to(R"("PT5M")"),
};
constexpr Object watch_slow_rank_object = {
    "WatchSlowRank", "How much slower than the others a rank may be.", watch_slow_rank_fields};

constexpr std::array<std::string_view, 2> watch_actions = {"report", "end"};

constexpr std::array watch_fields = {
    duration<&WatchSettings::silence>(
        "silence", shortest_watch.count(), longest_watch.count(),
        "How long all ranks may print nothing and do nothing: use less than 5 % of a CPU, no GPU, "
        "and hardly any files",
        R"("PT10M")"),
    object_within<&WatchSettings::pattern>("progress", watch_progress_object,
                                           "Lines that must keep coming"),
    duration<&WatchSettings::idle_gpu>("idleGpu", shortest_watch.count(), longest_watch.count(),
                                       "How long none of the job's GPUs may do anything",
                                       R"("PT15M")"),
    object_within<&WatchSettings::slow_percent>("slowRank", watch_slow_rank_object,
                                                "A rank that slows the others down"),
    choice<&WatchSettings::action>("action", watch_actions,
                                   "`report` shows where the ranks are; `end` also ends them. "
                                   "`retry` can then run the job again after the cause `hang`, or "
                                   "`slow`",
                                   R"("end")")
        .defaults_to(R"("report")"),
};

}  // namespace

constexpr Object watch_object = {
    "Watch",
    "Notices that the job stands still, and finds out where. An extension of Batch AI's schema; "
    "see stuck.md.",
    watch_fields};

}  // namespace batchai::job

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "job/line_pattern.hpp"
#include "job/model.hpp"
#include "record/job_files.hpp"

// The number by which the points of a sweep are compared.
namespace batchai::status {

struct Metric {
    double value = 0;  // may be infinite, or not a number, if the ranks have printed such a word
    std::string text;  // as it was printed

    // Returns whether this is better than the other. A number that is not finite is never better.
    [[nodiscard]] bool better_than(const Metric& other, job::MetricGoal goal) const;
};

// Looks for the metric in the lines of one stream of one rank. Its memory is limited: of a longer
// line than this, only the begin is looked at.
class MetricFinder {
  public:
    static constexpr std::size_t longest_line = 64UL << 10U;

    MetricFinder(const job::MetricPattern& pattern, job::MetricGoal goal, job::MetricTake take)
        : pattern_(pattern), goal_(goal), take_(take) {}

    // Takes the next bytes of the stream. A carriage return ends a line too, because programs show
    // their progress in this way.
    void feed(std::string_view bytes);
    // Looks at a last line without an end.
    void finish();
    [[nodiscard]] const std::optional<Metric>& found() const { return found_; }

  private:
    void look(std::string_view line);

    const job::MetricPattern& pattern_;
    job::MetricGoal goal_;
    job::MetricTake take_;
    std::string line_;
    std::optional<Metric> found_;
};

// What is searched: the newest attempt of a task, whose logs are in `logs`.
struct LogsOfTask {
    record::JobFiles files;
    std::filesystem::path logs;
    bool ended = false;
};

// Returns the metric of a task. Standard error counts only if there is none on standard output. Of
// several ranks, the best counts. Returns nothing as long as no line matches.
[[nodiscard]] base::Result<std::optional<Metric>> metric_of(const LogsOfTask& task,
                                                            const job::SweepMetric& settings);

}  // namespace batchai::status

// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/sweep/metric.hpp"

#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "status/job_logs.hpp"

namespace batchai::status {

namespace {

std::optional<double> number_of(std::string_view text) {
    text = base::trim(text);
    if (text.starts_with('+')) text.remove_prefix(1);
    double number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc() || end != text.data() + text.size() || text.empty())
        return std::nullopt;
    return number;
}

}  // namespace

bool Metric::better_than(const Metric& other, job::MetricGoal goal) const {
    if (!std::isfinite(value)) return false;
    if (!std::isfinite(other.value)) return true;
    return goal == job::MetricGoal::min ? value < other.value : value > other.value;
}

void MetricFinder::look(std::string_view line) {
    const auto text = pattern_.find(line);
    if (!text) return;
    const auto number = number_of(*text);
    if (!number) return;
    Metric metric{.value = *number, .text = std::string(base::trim(*text))};
    if (!found_ || take_ == job::MetricTake::last || metric.better_than(*found_, goal_))
        found_ = std::move(metric);
}

void MetricFinder::feed(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t end = bytes.find_first_of("\r\n");
        const std::string_view part = bytes.substr(0, end);
        line_.append(part.substr(0, longest_line - line_.size()));
        if (end == std::string_view::npos) return;
        finish();
        bytes.remove_prefix(end + 1);
    }
}

void MetricFinder::finish() {
    if (!line_.empty()) look(line_);
    line_.clear();
}

namespace {

struct Search {
    const LogsOfTask& task;
    const job::SweepMetric& settings;
    const job::MetricPattern& pattern;
};

// Searches one stream of one rank.
base::Result<std::optional<Metric>> search(const Search& search, int rank, bool error) {
    MetricFinder finder(search.pattern, search.settings.goal, search.settings.take);
    LogChoice choice;
    choice.ranks = std::vector<int>{rank};
    choice.output = !error;
    choice.error = error;
    JobLogReader reader(search.task.files, search.task.logs, std::move(choice), std::nullopt,
                        [&](const record::RankPlaces&, const std::vector<bool>&) {
                            return LogPrinter({}, [&](std::string_view bytes) {
                                finder.feed(bytes);
                                return true;
                            });
                        });
    auto found = JobLogReader::Found::more;
    while (found == JobLogReader::Found::more)
        found = TRY(reader.pump(search.task.ended));
    // The last line of a task that runs may be written in part.
    if (search.task.ended) finder.finish();
    return finder.found();
}

}  // namespace

base::Result<std::optional<Metric>> metric_of(const LogsOfTask& task,
                                              const job::SweepMetric& settings) {
    const auto pattern = TRY(job::MetricPattern::compile(settings.pattern));
    const JobLogReader reader(task.files, task.logs, LogChoice{}, std::nullopt, {});
    const auto ranks = TRY(reader.ranks());
    std::optional<Metric> best;
    if (!ranks) return best;
    for (const auto& [rank, node] : *ranks) {
        if (rank != 0 && settings.ranks == job::MetricRanks::first) break;
        auto metric = TRY(search({task, settings, pattern}, rank, false));
        if (!metric) metric = TRY(search({task, settings, pattern}, rank, true));
        if (metric && (!best || metric->better_than(*best, settings.goal))) best = metric;
    }
    return best;
}

}  // namespace batchai::status

// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/node_steps.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::record {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view begin_word = "begin";
constexpr std::string_view ready_word = "ready";
constexpr std::string_view end_word = "end";

// A reader looks at the end of a longer file, which has some ten thousand steps.
constexpr std::size_t node_log_limit = 2UL << 20U;
constexpr std::size_t most_node_logs = 65536;

}  // namespace

NodeStepNote::NodeStepNote(const JobFiles& job, std::string_view node, base::Time begin)
    : id_(fmt::format("{}-{}", begin.time_since_epoch().count(), getpid())) {
    if (!base::make_directories(job.node_logs())) return;
    file_.reset(open(job.node_steps(node).c_str(),
                     O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
    line(begin_word, begin);
}

void NodeStepNote::ready() const {
    line(ready_word, base::now());
}

void NodeStepNote::end() const {
    line(end_word, base::now());
}

void NodeStepNote::line(std::string_view moment, base::Time time) const {
    if (!file_.valid()) return;
    // One call writes the line, so that the lines of concurrent steps do not mix.
    const std::string text = fmt::format("{} {} {}\n", id_, moment, base::to_iso8601(time));
    if (write(file_.get(), text.data(), text.size()) < 0) {
        // Best effort.
    }
}

std::vector<NodeStep> node_steps_in(std::string_view text, std::string_view node) {
    std::vector<NodeStep> steps;
    std::map<std::string_view, std::size_t> known;
    for (const std::string_view line : base::split(text, '\n')) {
        const auto words = base::split(line, ' ');
        if (words.size() != 3) continue;
        const auto time = base::from_iso8601(words[2]);
        if (!time) continue;
        if (words[1] == begin_word) {
            known[words[0]] = steps.size();
            steps.push_back({.node = std::string(node), .begin = *time, .ready = {}, .end = {}});
            continue;
        }
        const auto found = known.find(words[0]);
        if (found == known.end()) continue;
        NodeStep& step = steps[found->second];
        if (words[1] == ready_word) step.ready = *time;
        if (words[1] == end_word) step.end = *time;
    }
    return steps;
}

std::vector<NodeStep> node_steps(const JobFiles& job) {
    std::vector<NodeStep> all;
    std::size_t files = 0;
    std::error_code error;
    for (const auto& entry : base::entries_of(job.node_logs(), error)) {
        const std::string name = entry.path().filename().string();
        if (!name.ends_with(JobFiles::node_steps_ending)) continue;
        if (++files > most_node_logs) break;
        const base::FileDescriptor file(
            open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        const std::string text = base::end_of_file(file, 0, node_log_limit);
        auto steps = node_steps_in(text, std::string_view(name).substr(
                                             0, name.size() - JobFiles::node_steps_ending.size()));
        std::move(steps.begin(), steps.end(), std::back_inserter(all));
    }
    std::stable_sort(all.begin(), all.end(), [](const NodeStep& a, const NodeStep& b) {
        return std::tie(a.node, a.begin) < std::tie(b.node, b.begin);
    });
    return all;
}

}  // namespace batchai::record

// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/history/collect.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/parallel.hpp"
#include "base/text.hpp"
#include "plan/paths.hpp"
#include "status/history/timeline.hpp"

namespace batchai::status {

namespace {

namespace fs = std::filesystem;

// The variables that start a timeline. The first one that is set counts.
constexpr std::array<std::string_view, 2> timeline_variables{"MPI_BRIDGE_TIMELINE",
                                                             "HOROVOD_TIMELINE"};
// Its value for a timeline that the program starts itself.
constexpr std::string_view started_later = "DYNAMIC";

constexpr std::size_t most_files = 4096;
// A long file is read in so many pieces.
constexpr std::size_t pieces = 8;
// The first event of a file, which has its clock, is in its first bytes.
constexpr std::size_t head_bytes = 64UL << 10U;
// Of the newest attempts.
constexpr std::size_t attempts_with_usage = 8;
constexpr std::size_t usage_samples = 500;

std::string read_piece(const base::FileDescriptor& file, std::size_t from, std::size_t size) {
    std::string text(size, '\0');
    std::size_t done = 0;
    while (done < size) {
        const ssize_t count =
            pread(file.get(), text.data() + done, size - done, static_cast<off_t>(from + done));
        if (count <= 0) break;
        done += static_cast<std::size_t>(count);
    }
    text.resize(done);
    return text;
}

std::optional<RankTimeline> read_timeline(const base::FileDescriptor& file, std::size_t budget) {
    struct stat status {};
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
        return std::nullopt;
    const auto size = static_cast<std::size_t>(std::max<off_t>(0, status.st_size));
    TimelineParser parser;
    if (size <= budget) {
        parser.read(read_piece(file, 0, size));
        return parser.take();
    }
    parser.read(read_piece(file, 0, std::min(budget, head_bytes)));
    const std::size_t length = std::max<std::size_t>(budget / pieces, 1);
    for (std::size_t i = 0; i < pieces; ++i) {
        parser.gap();
        const std::size_t from = (size - length) / (pieces - 1) * i;
        const std::string text = read_piece(file, from, length);
        // A piece begins in the middle of a line, which is passed over.
        const std::size_t line = i == 0 ? 0 : text.find('\n');
        if (line != std::string::npos) parser.read(std::string_view(text).substr(line));
    }
    return parser.take();
}

// "step" and "step.12.json" give 12.
std::optional<int> rank_in(std::string_view name, std::string_view stem) {
    constexpr std::string_view ending = ".json";
    if (!name.starts_with(stem) || !name.ends_with(ending)) return std::nullopt;
    name.remove_prefix(stem.size());
    if (name.size() <= ending.size() || name.front() != '.') return std::nullopt;
    name.remove_prefix(1);
    name.remove_suffix(ending.size());
    const auto rank = base::number_in<int>(name);
    return rank && *rank >= 0 ? rank : std::nullopt;
}

// Translates a path as the job sees it to one of this host.
std::optional<std::string> path_here(const plan::Plan& plan, const std::string& path) {
    const plan::Directories& directories = plan.directories;
    const auto below = [&](const std::string& root, const std::string& here) {
        return !root.empty() && !here.empty() && plan::is_within(path, root)
                   ? std::optional(here + path.substr(root.size()))
                   : std::nullopt;
    };
    if (auto found = below(directories.stdouterr, directories.stdouterr_host)) return found;
    for (const plan::OutputDirectory& output : plan.outputs) {
        if (auto found = below(output.path, output.path_host)) return found;
    }
    return plan.host_path(path);
}

// Tells whether the timeline was written by this attempt or an earlier one of the job. A file of an
// earlier job with the same path says nothing about this one.
void keep_those_of_the_job(Timelines& timelines, const Facts& facts) {
    if (facts.attempts.empty()) return;
    constexpr std::chrono::minutes clocks_differ(2);
    const base::Time begin = facts.attempts.front().start - clocks_differ;
    std::erase_if(timelines.ranks, [&](const RankTimeline& rank) {
        return !rank.steps.empty() && rank.steps.front().begin < begin;
    });
}

Timelines timelines_of(const plan::Plan& plan, const Facts& facts) {
    Timelines out;
    for (const std::string_view name : timeline_variables) {
        const std::string* const value = plan::last_value(plan.environment, name);
        if (value == nullptr || value->empty() || *value == started_later) continue;
        out.asked_for = true;
        out.path = *value;
        break;
    }
    if (!out.asked_for) return out;
    const auto here = out.path.starts_with('/') ? path_here(plan, out.path) : std::nullopt;
    if (!here) {
        out.missing = fmt::format("\"{}\" is not a path that this host can see", out.path);
        return out;
    }
    out.ranks = read_timelines(*here);
    keep_those_of_the_job(out, facts);
    if (out.ranks.empty())
        out.missing = fmt::format("there is no file \"{}.RANK.json\" of the job", *here);
    return out;
}

}  // namespace

std::vector<RankTimeline> read_timelines(const std::string& path, std::size_t most_bytes) {
    const fs::path whole(path);
    const base::FileDescriptor directory(
        open(whole.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) return {};
    const std::string stem = whole.filename().string();
    std::vector<std::pair<int, std::string>> names;
    for (std::string& name : base::names_in(directory.get())) {
        const auto rank = rank_in(name, stem);
        if (rank) names.emplace_back(*rank, std::move(name));
    }
    std::sort(names.begin(), names.end());
    if (names.size() > most_files) names.resize(most_files);
    if (names.empty()) return {};
    const std::size_t budget = std::max(most_bytes / names.size(), head_bytes);
    std::vector<std::optional<RankTimeline>> found(names.size());
    base::in_parallel(names.size(), [&](std::size_t i) {
        // Others may write to the directory, so a link or a pipe is not opened.
        found[i] = read_timeline(
            base::open_beneath(directory.get(), names[i].second, O_RDONLY | O_NONBLOCK | O_CLOEXEC),
            budget);
    });
    std::vector<RankTimeline> out;
    for (auto& one : found) {
        if (one) out.push_back(std::move(*one));
    }
    return out;
}

Asked asked_of(const plan::Plan& plan) {
    Asked out{
        .tool = plan.tool_type,
        .command = {},
        .image = plan.container ? plan.container->image : std::string(),
        .nodes = plan.allocation.nodes,
        .ranks = plan.allocation.processes,
        .ranks_per_node = plan.allocation.processes_per_node,
        .cpus_per_rank = plan.allocation.cpus_per_process,
        .limit_seconds =
            std::chrono::duration_cast<std::chrono::seconds>(plan.allocation.time_limit).count(),
        .checkpoint = plan.checkpoint.has_value()};
    for (const plan::Step& step : plan.steps) {
        if (step.kind == plan::StepKind::ranks || step.kind == plan::StepKind::master)
            out.command = step.command;
    }
    return out;
}

base::Result<Facts> collect(const record::JobFiles& files, const plan::Plan& plan, Collect what) {
    Facts out{.job = std::move(what.job), .asked = asked_of(plan), .now = base::now()};
    out.attempts = TRY(record::all_attempts(files));
    out.node_steps = record::node_steps(files);
    out.failures = record::failure_notes(files);
    if (what.usage) {
        const std::size_t count = out.attempts.size();
        for (std::size_t i = count - std::min(count, attempts_with_usage); i < count; ++i) {
            const int number = out.attempts[i].number;
            auto usage = record::usage_of_attempt(files, number, usage_samples);
            if (!usage.empty()) out.usage.emplace_back(number, std::move(usage));
        }
    }
    if (what.timelines) out.timelines = timelines_of(plan, out);
    return out;
}

}  // namespace batchai::status

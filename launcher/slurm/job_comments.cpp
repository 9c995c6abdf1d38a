// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_comments.hpp"

#include <array>
#include <cstddef>
#include <set>

#include "base/text.hpp"
#include "slurm/status.hpp"

namespace batchai::slurm {

const std::string_view kJobCommentsFormat = "JobIDRaw,User,Start,End,NodeList,Comment";

namespace {

constexpr std::size_t fields_of_a_run = 6;
using RunFields = std::array<std::string_view, fields_of_a_run>;

std::optional<RunFields> fields_of_run(std::string_view line, std::string_view delimiter) {
    RunFields fields;
    for (std::size_t i = 0; i + 1 < fields.size(); ++i) {
        const std::size_t end = line.find(delimiter);
        if (end == std::string_view::npos) return std::nullopt;
        fields[i] = line.substr(0, end);
        line.remove_prefix(end + delimiter.size());
    }
    fields.back() = line;
    return is_job_id(fields.front()) ? std::optional(fields) : std::nullopt;
}

}  // namespace

std::vector<CommentedRun> parse_job_comments(std::string_view text, std::string_view delimiter,
                                             std::string_view word) {
    std::set<std::string_view> wanted;
    std::vector<RunFields> runs;
    for (const std::string_view line : base::split(text, '\n')) {
        const auto fields = fields_of_run(line, delimiter);
        if (!fields) continue;
        if (fields->back().find(word) != std::string_view::npos) wanted.insert(fields->front());
        runs.push_back(*fields);
    }
    std::vector<CommentedRun> out;
    for (const auto& [id, user, start, end, nodes, comment] : runs) {
        if (!wanted.contains(id)) continue;
        // Instead of nodes there may be "None assigned", and instead of a time "Unknown".
        const bool has_nodes = nodes.find(' ') == std::string_view::npos;
        out.push_back({.id = std::string(id),
                       .user = std::string(user),
                       .start = base::from_iso8601(start),
                       .end = base::from_iso8601(end),
                       .nodes = std::string(has_nodes ? nodes : ""),
                       .comment = std::string(comment)});
    }
    return out;
}

}  // namespace batchai::slurm

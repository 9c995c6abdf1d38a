// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_settings.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "slurm/hostlist.hpp"

namespace batchai::slurm {

namespace {

// Returns the value of a key; empty for Slurm's words for "none", and nothing without the key. The
// keys that are read here come before the texts of the user, such as the comment.
std::optional<std::string_view> value_of(std::string_view line, std::string_view key) {
    const std::string wanted = fmt::format(" {}=", key);
    const std::size_t at = line.find(wanted);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view value = line.substr(at + wanted.size());
    value = value.substr(0, value.find_first_of(" \n"));
    if (value == "(null)" || value == "None" || value == "Unknown" || value == "N/A")
        return std::string_view();
    return value;
}

}  // namespace

base::Result<JobSettings> parse_job_settings(std::string_view text) {
    const auto excluded = value_of(text, "ExcNodeList");
    const auto required = value_of(text, "ReqNodeList");
    if (!excluded || !required)
        return base::fail("this is not a job: " + std::string(text), "scontrol");
    JobSettings out;
    out.excluded = std::string(*excluded);
    if (!required->empty()) out.required = TRY(expand_hostlist(std::string(*required)));
    // Gang scheduling sets both times for a job that it only suspends, the second one again when
    // the job goes on. Both have the same form, so they compare as texts.
    const std::string_view claimed = value_of(text, "PreemptTime").value_or("");
    const std::string_view suspended = value_of(text, "SuspendTime").value_or("");
    out.preempted = !claimed.empty() && claimed > suspended;
    out.runs = value_of(text, "JobState") == "RUNNING";
    // Slurm prints this behind the user's texts, and may put a comma before it.
    out.expedited = text.find("ExpeditedRequeue=Yes") != std::string_view::npos;
    return out;
}

namespace {

// Whether a line of scontrol's begins there, such as "   StdErr=/dev/null".
bool begins_with_key(std::string_view text) {
    constexpr std::string_view indent = "   ";
    if (text.empty() || text.front() == '\n') return true;
    if (!text.starts_with(indent)) return false;
    const std::string_view line = text.substr(indent.size());
    const std::size_t end = line.find_first_of("= \n");
    return end != 0 && end != std::string_view::npos && line[end] == '=';
}

}  // namespace

std::string parse_comment(std::string_view text) {
    constexpr std::string_view key = "\n   Comment=";
    const std::size_t at = text.find(key);
    if (at == std::string_view::npos) return {};
    const std::string_view rest = text.substr(at + key.size());
    // A user may have put several lines there.
    std::size_t end = rest.find('\n');
    while (end != std::string_view::npos && !begins_with_key(rest.substr(end + 1)))
        end = rest.find('\n', end + 1);
    const std::string_view comment = base::trim(rest.substr(0, end));
    return comment == "(null)" ? std::string() : std::string(comment);
}

base::Result<std::string> with_nodes(const std::string& hostlist,
                                     const std::vector<std::string>& nodes) {
    std::vector<std::string> present;
    if (!hostlist.empty()) present = TRY(expand_hostlist(hostlist));
    std::string out = hostlist;
    for (const std::string& node : nodes) {
        if (std::find(present.begin(), present.end(), node) != present.end()) continue;
        present.push_back(node);
        out += (out.empty() ? "" : ",") + node;
    }
    return out;
}

}  // namespace batchai::slurm

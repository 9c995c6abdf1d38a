// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_devices.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "slurm/hostlist.hpp"

namespace batchai::slurm {

namespace {

constexpr std::string_view nodes_key = "Nodes=";
constexpr std::string_view gres_key = "GRES=";
constexpr std::string_view index_key = "(IDX:";
constexpr int most_devices = 4096;  // on a node

std::optional<int> device_index(std::string_view text) {
    const auto index = base::number_in<int>(text);
    return index && *index >= 0 && *index < most_devices ? index : std::nullopt;
}

// Reads a list of indices such as "0-1,3".
std::optional<std::vector<int>> indices(std::string_view text) {
    std::vector<int> out;
    for (const std::string_view range : base::split(text, ',')) {
        const std::size_t dash = range.find('-');
        const auto first = device_index(range.substr(0, dash));
        const auto last =
            dash == std::string_view::npos ? first : device_index(range.substr(dash + 1));
        if (!first || !last || *last < *first) return std::nullopt;
        for (int index = *first; index <= *last; ++index)
            out.push_back(index);
    }
    return out;
}

// Splits a list of resources at its commas, but not at those in brackets, which separate indices.
std::vector<std::string_view> split_resources(std::string_view text) {
    std::vector<std::string_view> out;
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '(') ++depth;
        if (text[i] == ')') --depth;
        if (text[i] != ',' || depth > 0) continue;
        out.push_back(text.substr(begin, i - begin));
        begin = i + 1;
    }
    out.push_back(text.substr(begin));
    return out;
}

// Reads resources such as "gpu:tesla:2(IDX:0-1),widget:1(CNT:1)". The devices of several types of
// one resource are counted together.
bool add_resources(std::string_view text, DeviceIndices& into) {
    for (const std::string_view resource : split_resources(text)) {
        const std::size_t at = resource.find(index_key);
        if (at == std::string_view::npos) continue;
        const std::string_view rest = resource.substr(at + index_key.size());
        const auto found = indices(rest.substr(0, rest.find(')')));
        if (!found) return false;
        std::vector<int>& all = into[std::string(resource.substr(0, resource.find(':')))];
        all.insert(all.end(), found->begin(), found->end());
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
    }
    return true;
}

// Returns the value of the word that starts with `key`, such as "GRES=…".
std::string_view word_after(std::string_view line, std::string_view key) {
    for (const std::string_view word : base::split(line, ' ')) {
        if (word.starts_with(key)) return word.substr(key.size());
    }
    return {};
}

}  // namespace

base::Result<JobDevices> parse_job_devices(std::string_view text) {
    JobDevices devices;
    for (const std::string_view whole : base::split(text, '\n')) {
        // Such a line is "     Nodes=h[1-2] CPU_IDs=0-1 Mem=512 GRES=gpu:1(IDX:0)".
        const std::string_view line = base::trim(whole);
        if (!line.starts_with(nodes_key)) continue;
        const std::string_view gres = word_after(line, gres_key);
        if (gres.empty()) continue;
        const auto nodes = TRY(expand_hostlist(word_after(line, nodes_key)));
        for (const std::string& node : nodes) {
            if (!add_resources(gres, devices[node]))
                return base::fail(fmt::format("\"{}\" does not say which devices", line),
                                  "scontrol");
        }
    }
    return devices;
}

}  // namespace batchai::slurm

// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/node_fault.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "record/job_comment.hpp"

namespace batchai::record {

namespace {

using std::chrono::seconds;

bool is_node_name(std::string_view text) {
    constexpr std::size_t longest_name = 255;
    return !text.empty() && text.size() <= longest_name &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return base::is_letter(c) || base::is_digit(c) || c == '.' || c == '_' || c == '-';
           });
}

// Reads seconds since 1970.
std::optional<base::Time> time_in(std::string_view text) {
    constexpr std::size_t most_digits = 10;
    const bool has_digits = std::all_of(text.begin(), text.end(), base::is_digit);
    if (!has_digits || text.size() > most_digits) return std::nullopt;
    const auto count = base::number_in<std::int64_t>(text);
    if (!count) return std::nullopt;
    return base::Time(seconds(*count));
}

std::string text_of(const NodeFault& fault) {
    return fmt::format("{}:{}:{}", fault.node, base::word_of(fault.kind),
                       std::chrono::floor<seconds>(fault.time).time_since_epoch().count());
}

std::optional<NodeFault> fault_in(std::string_view text) {
    const auto parts = base::split(text, ':');
    if (parts.size() != 3 || !is_node_name(parts[0])) return std::nullopt;
    const auto kind = base::from_word<NodeFaultKind>(parts[1]);
    const auto time = time_in(parts[2]);
    if (!kind || !time) return std::nullopt;
    return NodeFault{.node = std::string(parts[0]), .kind = *kind, .time = *time};
}

std::vector<NodeFault> faults_in(std::string_view list) {
    std::vector<NodeFault> out;
    if (list.size() > longest_job_comment) return out;
    for (const std::string_view text : base::split(list, ',')) {
        if (auto fault = fault_in(text)) out.push_back(std::move(*fault));
    }
    return out;
}

// Sorts the newest first, and keeps the last one of each kind on each node.
void sort_and_thin(std::vector<NodeFault>& faults) {
    std::stable_sort(faults.begin(), faults.end(),
                     [](const NodeFault& a, const NodeFault& b) { return a.time > b.time; });
    std::vector<NodeFault> out;
    for (NodeFault& fault : faults) {
        const bool known = std::any_of(out.begin(), out.end(), [&](const NodeFault& other) {
            return other.node == fault.node && other.kind == fault.kind;
        });
        if (!known) out.push_back(std::move(fault));
    }
    faults = std::move(out);
}

}  // namespace

std::string comment_with_node_faults(std::string_view comment,
                                     const std::vector<NodeFault>& faults) {
    JobComment out = parse_job_comment(comment);
    std::vector<NodeFault> all = faults_in(out.node_faults);
    std::copy_if(faults.begin(), faults.end(), std::back_inserter(all),
                 [](const NodeFault& fault) { return is_node_name(fault.node); });
    sort_and_thin(all);
    out.node_faults.clear();
    for (const NodeFault& fault : all) {
        JobComment longer = out;
        if (!longer.node_faults.empty()) longer.node_faults += ',';
        longer.node_faults += text_of(fault);
        if (to_text(longer).size() > longest_job_comment) break;
        out = std::move(longer);
    }
    return to_text(out);
}

std::vector<NodeFault> node_faults_in_comment(std::string_view comment) {
    auto faults = faults_in(parse_job_comment(comment).node_faults);
    sort_and_thin(faults);
    return faults;
}

}  // namespace batchai::record

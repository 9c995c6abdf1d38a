// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/record.hpp"

// What a check of the installation has found.
namespace batchai::admin {

// In the order in which they are worse. `unknown` means that the check could not be made, which is
// never taken for a success.
enum class Severity { ok, info, unknown, warning, error };

// What a check that looks at all nodes has found on one of them.
struct NodeJudgement {
    std::string node;
    Severity severity = Severity::ok;
    std::string found;
    std::string remedy;
};

// The outcome of one check on the facts that it looks at.
struct Judgement {
    Severity severity = Severity::ok;
    std::string found;   // what is there, in one line
    std::string remedy;  // what to do; empty if nothing needs to be done
    // If there are some, they are findings of their own instead of the one above.
    std::vector<NodeJudgement> nodes;
};

// The outcome of one check on one host.
struct Finding {
    std::string id;    // of the check, such as "plugin.line"
    std::string host;  // where it was made, or the node that it is about
    Severity severity = Severity::ok;
    std::string found;
    std::string remedy;

    bool operator==(const Finding&) const = default;
};

}  // namespace batchai::admin

template <>
struct batchai::base::WordsOf<batchai::admin::Severity> {
    static constexpr std::array<std::pair<std::string_view, admin::Severity>, 5> words{{
        {"ok", admin::Severity::ok},
        {"info", admin::Severity::info},
        {"unknown", admin::Severity::unknown},
        {"warning", admin::Severity::warning},
        {"error", admin::Severity::error},
    }};
};

template <>
struct batchai::base::RecordOf<batchai::admin::Finding> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("id", &admin::Finding::id), field("host", &admin::Finding::host),
                          field("severity", &admin::Finding::severity),
                          field("found", &admin::Finding::found),
                          field("remedy", &admin::Finding::remedy)};
    }
};

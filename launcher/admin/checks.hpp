// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <span>
#include <string_view>

#include "admin/cluster_facts.hpp"
#include "admin/finding.hpp"
#include "admin/host_facts.hpp"

// The checks of `batchai admin check`. Each judges facts and asks nothing itself, so that a test
// can give it the facts of any site.
namespace batchai::admin {

template <typename Facts>
struct Check {
    std::string_view id;     // never changes its meaning; scripts select by it
    std::string_view title;  // "what is looked at"
    std::string_view why;    // what does not work if it fails; whole sentences
    Judgement (*judge)(const Facts& facts);
};

// Checks that are made once.
[[nodiscard]] std::span<const Check<ClusterFacts>> cluster_checks();

// Checks that are made on each host that runs jobs or submits them.
[[nodiscard]] std::span<const Check<HostFacts>> host_checks();

}  // namespace batchai::admin

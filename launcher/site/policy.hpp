// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace batchai::site {

class TableReader;

// The most that a job may ask for. Absent: there is no limit.
struct Limits {
    std::optional<int> nodes;
    std::optional<int> minutes;

    bool operator==(const Limits&) const = default;
};

struct VmSizePolicy {
    Limits limits;
    std::vector<std::string> accounts;  // as Policy::accounts, for this size

    bool operator==(const VmSizePolicy&) const = default;
};

// The rules of the site for jobs of this program, from the key `policy` of site.lua. The planner
// checks them (plan/policy.cpp), and slurmctld checks the same rules again for jobs that no planner
// of this site has seen (lua/job_submit.lua.in). Both must read them alike.
struct Policy {
    // A job must have one of them; empty: any or none. They are in lower case.
    std::vector<std::string> accounts;
    std::vector<std::string> images;  // patterns, see matches(); empty: all images
    Limits limits;
    std::map<std::string, Limits, std::less<>> users;  // replace `limits`, key by key
    // In addition to the limits of the user. Keys in upper case.
    std::map<std::string, VmSizePolicy, std::less<>> vm_sizes;

    bool operator==(const Policy&) const = default;
};

// Reads the key `policy`.
void read_policy(TableReader& table, Policy& policy);

// Returns the limits for a user's job on nodes of a VM size, which may be empty.
[[nodiscard]] Limits limits_for(const Policy& policy, std::string_view user,
                                std::string_view vm_size);

// Returns whether the whole name matches the pattern, in which "*" stands for any text.
[[nodiscard]] bool matches(std::string_view name, std::string_view pattern);

}  // namespace batchai::site

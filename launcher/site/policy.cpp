// SPDX-License-Identifier: GPL-2.0-or-later
#include "site/policy.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/text.hpp"
#include "site/table_reader.hpp"

namespace batchai::site {

namespace {

void read_limits(TableReader& table, Limits& limits) {
    table.limit("nodes", limits.nodes);
    table.limit("minutes", limits.minutes);
}

// Slurm has the names of accounts in lower case, but a user may write them in any.
void read_accounts(TableReader& table, std::vector<std::string>& accounts) {
    table.words("accounts", accounts);
    for (std::string& account : accounts)
        account = base::lower(account);
}

void keep_lower(std::optional<int>& limit, const std::optional<int>& other) {
    if (other) limit = std::min(limit.value_or(*other), *other);
}

}  // namespace

void read_policy(TableReader& table, Policy& policy) {
    table.inside("policy", [&](TableReader& entry) {
        read_accounts(entry, policy.accounts);
        entry.words("images", policy.images);
        read_limits(entry, policy.limits);
        entry.each("users", [&](const std::string& name, TableReader& user) {
            read_limits(user, policy.users[name]);
        });
        entry.each("vm_sizes", [&](const std::string& name, TableReader& size) {
            const auto [at, is_new] = policy.vm_sizes.try_emplace(base::upper(name));
            if (!is_new)
                table.refuse("policy",
                             fmt::format("vm_sizes.{} is there more than once", at->first));
            read_limits(size, at->second.limits);
            read_accounts(size, at->second.accounts);
        });
    });
}

Limits limits_for(const Policy& policy, std::string_view user, std::string_view vm_size) {
    Limits limits = policy.limits;
    if (const auto own = policy.users.find(user); own != policy.users.end()) {
        if (own->second.nodes) limits.nodes = own->second.nodes;
        if (own->second.minutes) limits.minutes = own->second.minutes;
    }
    if (const auto size = policy.vm_sizes.find(vm_size); size != policy.vm_sizes.end()) {
        keep_lower(limits.nodes, size->second.limits.nodes);
        keep_lower(limits.minutes, size->second.limits.minutes);
    }
    return limits;
}

bool matches(std::string_view name, std::string_view pattern) {
    std::size_t at = 0;
    std::size_t next = 0;
    // Where the last "*" is, and where the text that it stands for ends at present. Only this "*"
    // is ever tried again, so the time is at most the product of the lengths.
    std::size_t star = std::string_view::npos;
    std::size_t end = 0;
    while (at < name.size()) {
        if (next < pattern.size() && pattern[next] == '*') {
            star = next++;
            end = at;
        } else if (next < pattern.size() && pattern[next] == name[at]) {
            ++next;
            ++at;
        } else if (star != std::string_view::npos) {
            next = star + 1;
            at = ++end;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', next) == std::string_view::npos;
}

}  // namespace batchai::site

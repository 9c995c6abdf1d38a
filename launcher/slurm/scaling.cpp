// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/scaling.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.hpp"

namespace batchai::slurm {

namespace {

std::string setting(const Configuration& configuration, std::string_view key) {
    const auto found = configuration.find(key);
    return found == configuration.end() || found->second == "(null)" ? std::string()
                                                                     : found->second;
}

// Returns the id in "slurm(64030)".
std::optional<unsigned> id_in(std::string_view user) {
    const std::size_t open = user.rfind('(');
    if (open == std::string_view::npos || !user.ends_with(')')) return std::nullopt;
    return base::number_in<unsigned>(user.substr(open + 1, user.size() - open - 2));
}

}  // namespace

base::Result<PowerRights> power_rights(
    const Configuration& configuration, unsigned user_id,
    const std::function<base::Result<bool>()>& is_administrator) {
    PowerRights rights;
    rights.suspend_time = setting(configuration, "SuspendTime");
    const std::string timeout = setting(configuration, "SuspendTimeout");
    const std::string_view seconds = std::string_view(timeout).substr(0, timeout.find(' '));
    rights.suspend_timeout = std::chrono::seconds(base::number_in<int>(seconds).value_or(0));
    for (const std::string_view key : {"SuspendProgram", "ResumeProgram"}) {
        if (!setting(configuration, key).empty()) continue;
        rights.reason = fmt::format("Slurm has no power saving here ({} is not set)", key);
        return rights;
    }
    const std::string accounts = setting(configuration, "AccountingStorageType");
    const bool keeps_accounts = !accounts.empty() && accounts != "accounting_storage/none";
    rights.allowed = user_id == 0 || user_id == id_in(setting(configuration, "SlurmUser")) ||
                     (keeps_accounts && TRY(is_administrator()));
    if (!rights.allowed)
        rights.reason = "only an administrator of Slurm may power nodes up and down";
    return rights;
}

bool denies_permission(const base::Error& error) {
    if (error.exit_code != base::ExitCode::refused) return false;
    const std::string said = base::lower(error.what);
    // Slurm's texts for ESLURM_USER_ID_MISSING and ESLURM_ACCESS_DENIED (slurm_errno.c).
    return said.find("invalid user id") != std::string::npos ||
           said.find("access/permission denied") != std::string::npos;
}

base::Result<PowerRights> power_rights(const Client& client, const std::string& user) {
    return power_rights(TRY(client.configuration()), getuid(),
                        [&] { return client.is_administrator(user); });
}

namespace {

// In the order in which a cluster prefers its nodes.
enum class Worth {
    runs_our_jobs,
    own_and_up,
    up,
    was_to_go,
    own_and_off,
    off,
    own_and_powers_down,
    powers_down,
    leaves_with_our_jobs,
    did_not_start,
    none,
};

// A node that an administrator has drained stays as it is.
bool is_off(const NodeStatus& node) {
    return node.has(NodeFlag::powered_down) && !node.has(NodeFlag::powering_up) &&
           !node.has(NodeFlag::drain) && !node.has(NodeFlag::fail) &&
           node.state != NodeBaseState::down;
}

bool powers_down(const NodeStatus& node) {
    return node.has(NodeFlag::powering_down) || node.has(NodeFlag::power_down);
}

Worth worth_of(const NodeStatus& node, NodeUse use, bool own) {
    const bool ours = use != NodeUse::none;
    const bool busy =
        (node.state == NodeBaseState::allocated || node.state == NodeBaseState::mixed) &&
        !node.has(NodeFlag::completing);
    if (did_not_start(node) && !node.has(NodeFlag::powering_up)) return Worth::did_not_start;
    if (powers_down(node)) {
        if (ours) return Worth::leaves_with_our_jobs;
        if (busy) return Worth::none;
        return own ? Worth::own_and_powers_down : Worth::powers_down;
    }
    if (was_to_power_down(node)) return own || ours ? Worth::was_to_go : Worth::none;
    // Slurm may already have given a node to a job that it is about to power up for it.
    if (is_off(node) && !busy) return own ? Worth::own_and_off : Worth::off;
    switch (node_state(node, use)) {
        case NodeState::unusable:
        case NodeState::foreign:
        case NodeState::off:
            return Worth::none;
        default:
            break;
    }
    if (ours) return Worth::runs_our_jobs;
    if (busy) return Worth::none;
    return own ? Worth::own_and_up : Worth::up;
}

}  // namespace

PowerPlan plan_power(const ScalingInput& input, int target) {
    struct Candidate {
        const NodeStatus* node;
        Worth worth;
    };
    const auto uses = uses_of(input.jobs);
    std::vector<Candidate> candidates;
    for (const NodeStatus& node : input.nodes) {
        if (input.others.contains(node.name)) continue;
        const auto used = uses.find(node.name);
        const bool own = input.own.contains(node.name) ||
                         (was_to_power_down(node) && input.leaving.contains(node.name));
        const Worth worth = worth_of(node, used == uses.end() ? NodeUse::none : used->second, own);
        if (worth != Worth::none) candidates.push_back({&node, worth});
    }
    std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return a.worth != b.worth ? a.worth < b.worth : a.node->name < b.node->name;
    });
    PowerPlan plan;
    for (const auto& [node, worth] : candidates) {
        if (static_cast<int>(plan.keep.size()) < target) {
            plan.keep.push_back(node->name);
            const bool off = worth == Worth::was_to_go && node->has(NodeFlag::powered_down);
            if (worth == Worth::was_to_go) plan.usable.push_back(node->name);
            if (worth == Worth::own_and_off || worth == Worth::off ||
                worth == Worth::did_not_start || off)
                plan.up.push_back(node->name);
            else if (worth == Worth::own_and_powers_down || worth == Worth::powers_down)
                plan.waiting.push_back(node->name);
        } else if (worth == Worth::runs_our_jobs || worth == Worth::own_and_up ||
                   worth == Worth::was_to_go) {
            plan.down.push_back(node->name);
        }
    }
    for (auto* list : {&plan.keep, &plan.up, &plan.usable, &plan.waiting, &plan.down})
        std::sort(list->begin(), list->end());
    return plan;
}

}  // namespace batchai::slurm

// SPDX-License-Identifier: GPL-2.0-or-later
#include "clusters/scaling.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output/terminal.hpp"
#include "clusters/view.hpp"
#include "slurm/node_view.hpp"
#include "slurm/scaling.hpp"
#include "status/job_view.hpp"
#include "user/parents.hpp"

namespace batchai::clusters {

namespace {

using Names = std::vector<std::string>;
using NameSet = std::set<std::string, std::less<>>;

NameSet set_of(const Names& names) {
    return {names.begin(), names.end()};
}

bool is_held(const store::Cluster& cluster, const std::string& job_id) {
    return std::find(cluster.held_jobs.begin(), cluster.held_jobs.end(), job_id) !=
           cluster.held_jobs.end();
}

// What is to be done with the jobs of the cluster that wait.
struct Holds {
    Names hold;     // those that are too large for the cluster now
    Names release;  // those that were held for this reason and are no longer too large
};

// Returns Slurm's id of the job, or the ids of its arrays, if it or some of their tasks wait; and
// the reasons.
std::map<std::string, std::string> waiting_of(const status::JobView& job_view) {
    std::map<std::string, std::string> out;
    const auto add = [&](const std::string& id, const slurm::JobStatus& status) {
        if (status.state == slurm::JobState::pending) out.try_emplace(id, status.reason);
    };
    if (job_view.tasks.empty() && job_view.evidence.slurm)
        add(job_view.job.slurm_job_id, *job_view.evidence.slurm);
    for (const status::TaskView& task : job_view.tasks) {
        if (const auto& status = task.evidence.slurm) add(status->array_id, *status);
    }
    return out;
}

Holds holds_of(const store::Cluster& cluster, const std::vector<status::JobView>& job_views) {
    const int limit = node_limit(cluster);
    Holds out;
    for (const status::JobView& job_view : job_views) {
        if (job_view.job.cluster_key() != cluster.key) continue;
        for (const auto& [id, reason] : waiting_of(job_view)) {
            if (job_view.job.all_nodes() > limit) {
                // A job that its user holds stays the user's to release.
                const bool by_user = reason.starts_with("JobHeld") && !is_held(cluster, id);
                if (!by_user) out.hold.push_back(id);
            } else if (is_held(cluster, id)) {
                out.release.push_back(id);
            }
        }
    }
    return out;
}

// Holds and releases jobs. Until Slurm has done it all, the record names every job that may be held
// for the cluster, so that a later call releases it even if this process is killed.
base::Result<store::Cluster> hold_large_jobs(const store::Store& store, const slurm::Client& client,
                                             const store::Cluster& cluster, const Holds& holds) {
    NameSet perhaps_held = set_of(cluster.held_jobs);
    perhaps_held.insert(holds.hold.begin(), holds.hold.end());
    const auto record_held = [&](const Names& ids) {
        return store.update<store::Cluster>(
            cluster.key, [&](store::Cluster& record) { record.held_jobs = ids; });
    };
    TRY(record_held({perhaps_held.begin(), perhaps_held.end()}));
    for (const std::string& id : holds.hold) {
        const auto job = TRY(slurm::JobId::parse(id));
        TRY(client.hold(job));
    }
    for (const std::string& id : holds.release) {
        const auto job = TRY(slurm::JobId::parse(id));
        TRY(client.release(job));
    }
    return record_held(holds.hold);
}

base::Result<slurm::ScalingInput> input_for(const store::Store& store, const site::Site& site,
                                            const slurm::Client& client,
                                            const store::Cluster& cluster,
                                            const ClusterLoad& load) {
    return slurm::ScalingInput{.nodes = TRY(client.nodes(node_filter(site, cluster.vm_size))),
                               .jobs = load.jobs,
                               .own = set_of(cluster.nodes),
                               .leaving = set_of(cluster.leaving),
                               .others = nodes_of_others(store, cluster.key)};
}

// Returns the nodes that have left the cluster and are still up.
Names leaving_after(const store::Cluster& cluster, const slurm::ScalingInput& input,
                    const slurm::PowerPlan& plan) {
    NameSet leaving = set_of(plan.down);
    const NameSet before = set_of(cluster.leaving);
    for (const auto& node : input.nodes) {
        if (before.contains(node.name) && !node.has(slurm::NodeFlag::powered_down))
            leaving.insert(node.name);
    }
    for (const std::string& name : plan.keep)
        leaving.erase(name);
    return {leaving.begin(), leaving.end()};
}

std::string in_words(const Names& names) {
    return fmt::format("{}", fmt::join(names, ", "));
}

void say_what_happens(const slurm::PowerPlan& plan, const slurm::PowerRights& rights,
                      const store::Cluster& cluster, int target, Names& remarks) {
    if (!plan.up.empty()) remarks.push_back("powering up " + in_words(plan.up));
    if (!plan.down.empty())
        remarks.push_back(fmt::format("powering down {}; a node with jobs when they have ended",
                                      in_words(plan.down)));
    if (static_cast<int>(plan.keep.size()) < target)
        remarks.push_back(
            fmt::format("only {} of {} nodes can be had now; the others are down, drained, busy "
                        "with other jobs or nodes of other clusters",
                        plan.keep.size(), target));
    if (!rights.suspend_time.empty() && rights.suspend_time != "INFINITE")
        remarks.push_back(fmt::format(
            "Slurm powers down nodes that are idle for {} (SuspendTime){}, and a job brings them "
            "back",
            rights.suspend_time, cluster.scale.auto_scale ? ", also below the minimum" : ""));
}

base::Result<store::Cluster> becomes_cap(const store::Store& store, const store::ClusterKey& key) {
    return store.update<store::Cluster>(key, [](store::Cluster& record) {
        record.scaling = store::Scaling::cap;
        record.nodes.clear();
        record.leaving.clear();
    });
}

std::string cap_remark(std::string_view reason) {
    return fmt::format(
        "the target is a cap on the jobs that are placed on the cluster: {}, so no node is powered "
        "up or down",
        reason);
}

}  // namespace

base::Result<ScalingView> look_at_slurm(const store::Store& store, const site::Site& site,
                                        const slurm::Client& client,
                                        const store::Cluster& cluster) {
    auto jobs = TRY(jobs_on_clusters_of(store, cluster.key.parent()));
    ScalingView view{.job_views = TRY(status::view_jobs(store, client, std::move(jobs))),
                     .rights = {},
                     .input = {}};
    // Slurm's accounting may not answer for a while. A cluster that has nodes must not lose them by
    // that. For others it makes no difference.
    auto rights = slurm::power_rights(client, user::current_user());
    if (!rights && cluster.scaling == store::Scaling::power_saving)
        return tl::unexpected(rights.error());
    if (rights)
        view.rights = std::move(*rights);
    else
        view.rights.reason = rights.error().text();
    if (view.rights.allowed)
        view.input =
            TRY(input_for(store, site, client, cluster, load_of(cluster.key, view.job_views)));
    return view;
}

base::Result<Rescaled> follow_target(const store::Store& store, const slurm::Client& client,
                                     const store::ClusterKey& key, const ScalingView& view,
                                     int initial) {
    store::Cluster cluster = TRY(store.get<store::Cluster>(key));
    Rescaled out{.cluster = {},
                 .remarks = {},
                 .waiting = {},
                 .suspend_timeout = view.rights.suspend_timeout};
    const Holds holds = holds_of(cluster, view.job_views);
    cluster = TRY(hold_large_jobs(store, client, cluster, holds));
    if (!holds.hold.empty())
        out.remarks.push_back(fmt::format("held until the cluster is large enough: Slurm's job {}",
                                          in_words(holds.hold)));
    if (!view.rights.allowed) {
        out.cluster = TRY(becomes_cap(store, key));
        out.remarks.push_back(cap_remark(view.rights.reason));
        return out;
    }
    const ClusterLoad load = load_of(key, view.job_views);
    const int target = target_of(cluster, std::max(load.wanted_nodes, initial));
    slurm::ScalingInput input = view.input;
    slurm::PowerPlan plan;
    // The record is written first, so that it names the nodes even if this process is killed.
    // Another command may have changed what clusters have since Slurm was asked. It cannot do so
    // while this one has the store's lock.
    out.cluster = TRY(store.update<store::Cluster>(key, [&](store::Cluster& record) {
        input.own = set_of(record.nodes);
        input.leaving = set_of(record.leaving);
        input.others = nodes_of_others(store, key);
        plan = slurm::plan_power(input, target);
        record.scaling = store::Scaling::power_saving;
        record.leaving = leaving_after(record, input, plan);
        record.nodes = plan.keep;
    }));
    using slurm::NodePower;
    auto changed = client.set_power(plan.down, NodePower::down_when_free)
                       .and_then([&] { return client.set_power(plan.usable, NodePower::usable); })
                       .and_then([&] { return client.set_power(plan.up, NodePower::up); });
    if (!changed && slurm::denies_permission(changed.error())) {
        out.cluster = TRY(becomes_cap(store, key));
        out.remarks.push_back(cap_remark("Slurm says \"" + changed.error().what + "\""));
        return out;
    }
    TRY(changed);
    out.waiting = plan.waiting;
    say_what_happens(plan, view.rights, cluster, target, out.remarks);
    return out;
}

base::Result<std::vector<std::string>> power_down_all(const store::Store& store,
                                                      const site::Site& site,
                                                      const slurm::Client& client,
                                                      const store::Cluster& cluster) {
    if (cluster.scaling != store::Scaling::power_saving) return Names{};
    const auto input = TRY(input_for(store, site, client, cluster, {}));
    const slurm::PowerPlan plan = slurm::plan_power(input, 0);
    TRY(client.set_power(plan.down, slurm::NodePower::down_when_free));
    if (plan.down.empty()) return Names{};
    return Names{"powering down " + in_words(plan.down)};
}

namespace {

struct LateNodes {
    Names powering_down;
    Names off;
};

base::Result<LateNodes> late_nodes(const site::Site& site, const slurm::Client& client,
                                   const store::Cluster& cluster, const NameSet& late) {
    LateNodes out;
    for (const auto& node : TRY(client.nodes(node_filter(site, cluster.vm_size)))) {
        if (!late.contains(node.name)) continue;
        if (node.has(slurm::NodeFlag::powering_down) || node.has(slurm::NodeFlag::power_down))
            out.powering_down.push_back(node.name);
        else if (node.has(slurm::NodeFlag::powered_down))
            out.off.push_back(node.name);
    }
    return out;
}

}  // namespace

base::Result<void> power_up_late_nodes(const site::Site& site, const slurm::Client& client,
                                       const Rescaled& rescaled) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds pause{1};
    // Slurm needs its SuspendTimeout and a look at its nodes.
    constexpr std::chrono::seconds slack{20};
    if (rescaled.waiting.empty()) return {};
    NameSet late = set_of(rescaled.waiting);
    const std::chrono::seconds longest = rescaled.suspend_timeout + slack;
    const auto deadline = Clock::now() + longest;
    cli::say(fmt::format("{} must finish powering down first; waiting up to {} s",
                         in_words(rescaled.waiting), longest.count()));
    while (true) {
        const LateNodes now = TRY(late_nodes(site, client, rescaled.cluster, late));
        TRY(client.set_power(now.off, slurm::NodePower::up));
        for (const std::string& name : now.off)
            late.erase(name);
        if (now.powering_down.empty()) return {};
        if (Clock::now() > deadline) {
            cli::warn(fmt::format("still powering down: {}; give the command again later",
                                  in_words(now.powering_down)));
            return {};
        }
        std::this_thread::sleep_for(pause);
    }
}

}  // namespace batchai::clusters

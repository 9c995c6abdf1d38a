// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/hosts.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace batchai::run {

bool contains(const Nodes& nodes, const std::string& name) {
    return std::find(nodes.begin(), nodes.end(), name) != nodes.end();
}

Nodes without(const Nodes& nodes, const Nodes& others) {
    Nodes out;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(out),
                 [&](const std::string& name) { return !contains(others, name); });
    return out;
}

namespace {

const slurm::NodeStatus* status_of(const std::string& name, const SlurmsView& view) {
    const auto found = std::find_if(view.nodes.begin(), view.nodes.end(),
                                    [&](const auto& node) { return node.name == name; });
    return found == view.nodes.end() ? nullptr : &*found;
}

bool starts_tasks(const slurm::NodeStatus* node) {
    return node != nullptr && run::starts_tasks(*node);
}

bool has(const std::string& name, const SlurmsView& view, slurm::NodeFlag flag) {
    const slurm::NodeStatus* const node = status_of(name, view);
    return node != nullptr && node->has(flag);
}

template <typename Predicate>
Nodes chosen(const Nodes& nodes, Predicate predicate) {
    Nodes out;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(out), predicate);
    return out;
}

// A node that saves power is not lost.
bool is_lost(const slurm::NodeStatus& node) {
    using Flag = slurm::NodeFlag;
    return !run::starts_tasks(node) && !node.has(Flag::powered_down) &&
           !node.has(Flag::powering_down);
}

}  // namespace

bool starts_tasks(const slurm::NodeStatus& node) {
    using Flag = slurm::NodeFlag;
    if (node.state == slurm::NodeBaseState::down || node.state == slurm::NodeBaseState::error)
        return false;
    const auto stopped = {Flag::not_responding, Flag::fail, Flag::powered_down, Flag::powering_down,
                          Flag::invalid_registration};
    return std::none_of(stopped.begin(), stopped.end(), [&](Flag flag) { return node.has(flag); });
}

base::Result<SlurmsView> ask_slurm(const slurm::Client& client, const std::string& job_id,
                                   const Nodes& nodes) {
    const auto jobs = TRY(client.jobs({job_id}));
    const auto job = jobs.find(job_id);
    if (job == jobs.end()) return base::fail(fmt::format("Slurm no longer knows job {}", job_id));
    // Without `hidden`, the nodes of a hidden partition would be missing, as if they were lost.
    return SlurmsView{.job = job->second,
                      .nodes = TRY(client.nodes({.hidden = true, .names = nodes}))};
}

Nodes nodes_that_start_no_tasks(const slurm::Client& client, const Nodes& nodes) {
    Nodes out;
    // Without `hidden`, those of a hidden partition would be missing.
    const auto known = client.nodes({.hidden = true, .names = nodes});
    if (!known) return out;
    for (const slurm::NodeStatus& node : *known) {
        if (contains(nodes, node.name) && is_lost(node)) out.push_back(node.name);
    }
    return out;
}

Nodes lost(const Nodes& nodes, const SlurmsView& view) {
    return chosen(nodes, [&](const std::string& name) {
        const slurm::NodeStatus* const node = status_of(name, view);
        return node == nullptr || is_lost(*node);
    });
}

Nodes survivors(const Nodes& nodes, const SlurmsView& view) {
    return chosen(nodes, [&](const std::string& name) {
        return contains(view.job.nodes, name) && starts_tasks(status_of(name, view));
    });
}

Nodes taken(const Nodes& nodes, const SlurmsView& view) {
    return chosen(nodes, [&](const std::string& name) {
        return !contains(view.job.nodes, name) && starts_tasks(status_of(name, view));
    });
}

bool has_drained(const Nodes& nodes, const SlurmsView& view) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const std::string& name) {
        return has(name, view, slurm::NodeFlag::drain);
    });
}

plan::Step shrunk(const plan::Step& step, std::size_t nodes) {
    plan::Step out = step;
    out.processes = std::min(step.processes, step.processes_per_node * static_cast<int>(nodes));
    return out;
}

Decision divide(const Hosts& hosts, const Nodes& fit) {
    const std::size_t most = hosts.most == 0 ? fit.size() : static_cast<std::size_t>(hosts.most);
    Nodes used = chosen(fit, [&](const std::string& name) { return contains(hosts.place, name); });
    if (used.size() > most) used.resize(most);
    for (const std::string& name : fit) {
        if (used.size() < most && !contains(used, name)) used.push_back(name);
    }
    return {.nodes = chosen(fit, [&](const std::string& name) { return contains(used, name); }),
            .spares = without(fit, used),
            .give_back = {}};
}

Decision decide(const Hosts& hosts, const SlurmsView& view) {
    const std::string& first = hosts.granted.front();
    Decision out;
    out.nodes = chosen(survivors(hosts.granted, view),
                       [&](const std::string& name) { return !hosts.unfit.contains(name); });
    const auto spare = [&] { return static_cast<int>(out.nodes.size()) - hosts.least; };
    if (hosts.leaves_drained) {
        const Nodes drained = chosen(out.nodes, [&](const std::string& name) {
            return name != first && has(name, view, slurm::NodeFlag::drain);
        });
        for (const std::string& name : drained) {
            if (spare() <= 0) break;
            std::erase(out.nodes, name);
            out.give_back.push_back(name);
        }
    }
    if (hosts.wanted && static_cast<int>(view.job.nodes.size()) > *hosts.wanted) {
        Nodes useless = chosen(view.job.nodes, [&](const std::string& name) {
            return name != first && !contains(out.nodes, name) && !contains(out.give_back, name);
        });
        const std::size_t excess = view.job.nodes.size() - static_cast<std::size_t>(*hosts.wanted);
        while (out.give_back.size() < excess && !useless.empty()) {
            out.give_back.push_back(useless.front());
            useless.erase(useless.begin());
        }
        while (out.give_back.size() < excess && spare() > 0 && out.nodes.back() != first) {
            out.give_back.push_back(out.nodes.back());
            out.nodes.pop_back();
        }
        out.give_back = chosen(
            view.job.nodes, [&](const std::string& name) { return contains(out.give_back, name); });
    }
    Decision divided = divide(hosts, out.nodes);
    divided.give_back = std::move(out.give_back);
    return divided;
}

record::HostsChange Difference::change() const {
    if (added.empty()) return record::HostsChange::removed;
    return removed.empty() ? record::HostsChange::added : record::HostsChange::mixed;
}

std::string Difference::text() const {
    std::string out;
    if (!removed.empty())
        out = fmt::format("{} {}", fmt::join(removed, ", "),
                          removed.size() == 1 ? "leaves" : "leave");
    if (!added.empty())
        out += fmt::format("{}{} {} back", out.empty() ? "" : "; ", fmt::join(added, ", "),
                           added.size() == 1 ? "is" : "are");
    return out;
}

Difference due_for(const Hosts& hosts, const SlurmsView& view) {
    const auto [next, spares, give_back] = decide(hosts, view);
    if (static_cast<int>(next.size()) < hosts.least) return {};
    Difference out{.removed = without(hosts.place, next), .added = without(next, hosts.place)};
    std::erase_if(out.removed, [&](const std::string& name) {
        const bool lost = !contains(view.job.nodes, name) ||
                          has(name, view, slurm::NodeFlag::not_responding) ||
                          status_of(name, view) == nullptr ||
                          status_of(name, view)->state == slurm::NodeBaseState::down;
        return lost || name == hosts.granted.front();
    });
    if (hosts.wanted) {
        const Nodes others = without(give_back, out.removed);
        out.removed.insert(out.removed.end(), others.begin(), others.end());
    }
    return out;
}

}  // namespace batchai::run

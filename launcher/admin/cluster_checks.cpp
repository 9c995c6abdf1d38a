// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "admin/checks.hpp"
#include "base/text.hpp"
#include "slurm/release.hpp"
#include "slurm/requeue_delay.hpp"

namespace batchai::admin {

namespace {

using slurm::Release;
using slurm::release_of;

template <typename T>
Judgement unanswered(const base::Result<T>& answer) {
    return {.severity = Severity::unknown,
            .found = answer.error().text(),
            .remedy = "mend what the line above says and check again"};
}

Judgement slurm_version(const ClusterFacts& facts) {
    constexpr Release oldest{22, 5, 0};
    // Those of docs/support.md.
    constexpr std::array<Release, 3> tested{{{22, 5, 0}, {24, 11, 0}, {26, 5, 0}}};
    if (!facts.version)
        return {.severity = Severity::error,
                .found = facts.version.error().text(),
                .remedy = "install Slurm's commands on this host, and put them on PATH"};
    const auto version = release_of(*facts.version);
    if (!version)
        return {.severity = Severity::unknown,
                .found = fmt::format("\"{}\" cannot be read as a version", *facts.version)};
    if (*version < oldest)
        return {.severity = Severity::error,
                .found = fmt::format("{} is older than 22.05", *facts.version),
                .remedy = "use Slurm 22.05 or newer"};
    const bool is_tested = std::any_of(tested.begin(), tested.end(), [&](const Release& series) {
        return (*version)[0] == series[0] && (*version)[1] == series[1];
    });
    if (!is_tested)
        return {.severity = Severity::info,
                .found = fmt::format("{}; the project's tests run with 22.05, 24.11 and 26.05",
                                     *facts.version)};
    return {.found = *facts.version};
}

Judgement slurm_controller(const ClusterFacts& facts) {
    if (facts.controller) return {.found = "slurmctld answers"};
    return {.severity = Severity::error,
            .found = facts.controller.error().what,
            .remedy = "see \"scontrol ping\" and the log of slurmctld"};
}

Judgement slurm_credentials(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    const std::string kind = facts.configured("AuthType");
    if (kind != "auth/munge")
        return {.severity = Severity::info, .found = fmt::format("AuthType is {}", kind)};
    if (facts.credentials) return {.found = "munge makes and reads credentials"};
    return {.severity = Severity::error,
            .found = facts.credentials.error().text(),
            .remedy = "start munged on this host, with the cluster's key"};
}

Judgement plugin_loads(const ClusterFacts& facts) {
    if (!facts.srun_help) return unanswered(facts.srun_help);
    if (facts.srun_help->find("--job-json") != std::string::npos)
        return {.found = "srun --help lists --job-json"};
    return {.severity = Severity::error,
            .found = "srun --help does not list --job-json, so Slurm has not loaded the plugin",
            .remedy =
                "see the checks plugin.line, plugin.file and plugin.abi; \"srun -vv true\" "
                "says why Slurm did not load it"};
}

Judgement filter(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    const std::string plugins = facts.configured("CliFilterPlugins");
    if (base::lower(plugins).find("lua") == std::string::npos)
        return {.severity = Severity::warning,
                .found =
                    "CliFilterPlugins does not have lua, so users must give the sizes of a "
                    "--job-json job themselves",
                .remedy =
                    "copy cli_filter.lua beside slurm.conf, then add CliFilterPlugins=lua to "
                    "slurm.conf"};
    if (!facts.cli_filter && facts.cli_filter.error().exit_code != base::ExitCode::not_found)
        return unanswered(facts.cli_filter);
    if (!facts.cli_filter)
        return {.severity = Severity::error,
                .found = fmt::format("CliFilterPlugins has lua, but there is no filter: {}. Slurm "
                                     "refuses every job",
                                     facts.cli_filter.error().text()),
                .remedy = "copy share/batchai/cli_filter.lua there"};
    constexpr std::string_view ours = "share/batchai/cli_filter.lua";
    if (facts.cli_filter->find("batchai_pre_submit") != std::string::npos)
        return {.found = "cli_filter.lua calls batchai_pre_submit"};
    if (facts.cli_filter->find(ours) != std::string::npos)
        return {.found = "the site's cli_filter.lua loads ours"};
    return {.severity = Severity::warning,
            .found = "the site's cli_filter.lua does not load ours",
            .remedy =
                "add dofile(\"PREFIX/share/batchai/cli_filter.lua\") at its end, before a final "
                "return"};
}

Judgement policy_enforced(const ClusterFacts& facts) {
    if (!facts.site) return unanswered(facts.site);
    if (facts.site->policy == site::Policy()) return {.found = "site.lua has no policy"};
    if (!facts.configuration) return unanswered(facts.configuration);
    if (base::lower(facts.configured("JobSubmitPlugins")).find("lua") == std::string::npos)
        return {.severity = Severity::warning,
                .found =
                    "site.lua has a policy, but JobSubmitPlugins does not have lua, so users can "
                    "get round it",
                .remedy =
                    "load share/batchai/job_submit.lua on the controller, and add "
                    "JobSubmitPlugins=lua to slurm.conf"};
    return {.found = "the controller runs a job_submit.lua, which can enforce the policy"};
}

Judgement mpi_types(const ClusterFacts& facts) {
    if (!facts.mpi_types) return unanswered(facts.mpi_types);
    const std::string wanted = facts.site ? facts.site->mpi : site::Site().mpi;
    const bool there = std::find(facts.mpi_types->begin(), facts.mpi_types->end(), wanted) !=
                       facts.mpi_types->end();
    if (there) return {.found = fmt::format("srun has --mpi={}", wanted)};
    return {.severity = Severity::error,
            .found = fmt::format("srun has no --mpi={}, only {}", wanted,
                                 fmt::join(*facts.mpi_types, ", ")),
            .remedy =
                "install Slurm's PMIx plugin, or set mpi = \"pmi2\" in site.lua, which suits "
                "programs that use mpi_bridge or Horovod's interface"};
}

Judgement site_partitions(const ClusterFacts& facts) {
    if (!facts.site) return unanswered(facts.site);
    if (!facts.partitions) return unanswered(facts.partitions);
    const std::set<std::string>& known = *facts.partitions;
    std::vector<std::string> missing;
    const auto look = [&](const std::string& key, const std::string& partition) {
        if (!partition.empty() && !known.contains(partition))
            missing.push_back(fmt::format("{} names \"{}\"", key, partition));
    };
    look("default_partition", facts.site->default_partition);
    for (const auto& [name, size] : facts.site->vm_sizes)
        look(fmt::format("vm_sizes.{}.partition", name), size.partition);
    if (missing.empty()) return {.found = "Slurm has the partitions that site.lua names"};
    return {.severity = Severity::error,
            .found = fmt::format("Slurm does not have a partition: {}", fmt::join(missing, "; ")),
            .remedy = fmt::format("use one of {} in site.lua", fmt::join(known, ", "))};
}

Judgement process_tracking(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    const std::string kind = facts.configured("ProctrackType");
    if (kind == "proctrack/cgroup") return {.found = kind};
    return {.severity = Severity::warning,
            .found = fmt::format("ProctrackType is {}: processes of a job that become daemons can "
                                 "outlive it",
                                 kind),
            .remedy = "set ProctrackType=proctrack/cgroup in slurm.conf"};
}

Judgement contain_spank(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    if (facts.configured("SlurmdParameters").find("contain_spank") == std::string::npos)
        return {.found = "SlurmdParameters does not have contain_spank"};
    return {.severity = Severity::error,
            .found = "SlurmdParameters has contain_spank, with which the plugin does not work yet",
            .remedy = "remove contain_spank from SlurmdParameters"};
}

Judgement private_tmp(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    const std::string old_key = facts.configured("JobContainerType");
    const std::string kind = old_key.empty() ? facts.configured("NamespaceType") : old_key;
    if (kind.find("tmpfs") == std::string::npos &&
        kind.find("namespace/linux") == std::string::npos)
        return {.found = "steps see the /tmp of their node"};
    return {.severity = Severity::warning,
            .found = fmt::format("{} gives each job a /tmp of its own; the project was not run "
                                 "with it",
                                 kind),
            .remedy = "set node_directory in site.lua to a directory that all steps of a node see"};
}

Judgement task_prolog(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    const std::string program = facts.configured("TaskProlog");
    if (program.empty()) return {.found = "there is no TaskProlog"};
    // In these versions Slurm runs it by way of slurmstepd, whose libraries no image has.
    const auto version = facts.version ? release_of(*facts.version) : std::nullopt;
    const auto between = [&](const Release& first, const Release& last) {
        return version && *version >= first && *version <= last;
    };
    if (between({24, 11, 0}, {24, 11, 6}) || between({25, 5, 0}, {25, 5, 1}))
        return {.severity = Severity::error,
                .found = fmt::format("TaskProlog is {}; in jobs with a container Slurm runs it in "
                                     "the container, and Slurm {} cannot run it there",
                                     program, *facts.version),
                .remedy = "use Slurm 24.11.7, 25.05.2 or newer"};
    return {.severity = Severity::info,
            .found = fmt::format("TaskProlog is {}; jobs with a container run it in the container, "
                                 "where what it calls may be missing",
                                 program),
            .remedy =
                "name what it calls, its interpreter included, in container_binds of site.lua "
                "if an image lacks it"};
}

Judgement requeue(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    if (facts.configured("JobRequeue") == "0")
        return {.severity = Severity::warning,
                .found = "JobRequeue is 0: a job does not start again after its node has failed",
                .remedy = "set JobRequeue=1 in slurm.conf"};
    const std::chrono::seconds delay = slurm::requeue_delay(*facts.configuration);
    const std::string found =
        fmt::format("jobs are requeued, and start again after {} s at the earliest", delay.count());
    if (delay < slurm::default_requeue_delay) return {.found = found};
    const slurm::DelaySetting setting = slurm::setting_of_requeue_delay(*facts.configuration);
    return {.severity = Severity::info,
            .found = fmt::format("{}; {} in {} of slurm.conf makes that shorter", found,
                                 setting.value, setting.key)};
}

// Reads "60 sec".
std::optional<int> seconds_of(const std::string& text) {
    return base::number_in<int>(std::string_view(text).substr(0, text.find(' ')));
}

Judgement unkillable(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    constexpr int least = 60;
    const auto given = seconds_of(facts.configured("UnkillableStepTimeout"));
    const auto message = seconds_of(facts.configured("MessageTimeout"));
    if (!given)
        return {.severity = Severity::unknown, .found = "UnkillableStepTimeout cannot be read"};
    const int wanted = std::max(least, 5 * message.value_or(0));
    if (*given >= wanted) return {.found = fmt::format("UnkillableStepTimeout is {} s", *given)};
    return {.severity = Severity::warning,
            .found = fmt::format("UnkillableStepTimeout is {} s: a node is drained if a process "
                                 "that waits for storage takes longer to end",
                                 *given),
            .remedy = fmt::format("set UnkillableStepTimeout={} or more in slurm.conf", wanted)};
}

Judgement power_saving(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    const bool suspend = !facts.configured("SuspendProgram").empty();
    const bool resume = !facts.configured("ResumeProgram").empty();
    if (!suspend && !resume)
        return {.found = "Slurm has no power saving, so the target of a cluster is a cap"};
    if (suspend != resume) {
        const std::string_view missing = suspend ? "ResumeProgram" : "SuspendProgram";
        return {.severity = Severity::warning,
                .found = fmt::format("{} is not set, so Slurm saves no power", missing),
                .remedy = fmt::format("set {} in slurm.conf", missing)};
    }
    constexpr int least = 60;
    const auto timeout = seconds_of(facts.configured("ResumeTimeout"));
    if (timeout && *timeout < least)
        return {.severity = Severity::warning,
                .found = fmt::format("ResumeTimeout is {} s: a node that takes longer to start is "
                                     "taken out",
                                     *timeout),
                .remedy = fmt::format("set ResumeTimeout={} or more in slurm.conf", least)};
    const auto wait_of_retry = static_cast<int>(slurm::requeue_delay(*facts.configuration).count());
    const auto idle = seconds_of(facts.configured("SuspendTime"));
    if (idle && *idle <= wait_of_retry)
        return {.severity = Severity::warning,
                .found = fmt::format("SuspendTime is {} s: the nodes of a job that is queued again "
                                     "are powered down while it waits",
                                     *idle),
                .remedy = fmt::format("set SuspendTime={} or more in slurm.conf",
                                      std::max(300, 2 * wait_of_retry))};
    return {.found = "Slurm powers nodes down and up"};
}

Judgement accounting(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    if (!facts.configured("AccountingStorageType").empty() &&
        facts.configured("AccountingStorageType") != "accounting_storage/none")
        return {.found = facts.configured("AccountingStorageType")};
    return {.severity = Severity::info,
            .found = "Slurm keeps no accounts: \"batchai job show\" says less about ended jobs"};
}

// Returns the first host that has several nodes, with those; none if each has one. A host is known
// by its address.
std::vector<std::string> nodes_of_one_host(const std::map<std::string, base::Endpoint>& daemons) {
    std::map<std::string, std::vector<std::string>> nodes;
    for (const auto& [node, daemon] : daemons)
        nodes[daemon.address].push_back(node);
    for (auto& [address, names] : nodes) {
        if (names.size() > 1) return std::move(names);
    }
    return {};
}

Judgement several_slurmds(const ClusterFacts& facts) {
    if (!facts.configuration) return unanswered(facts.configuration);
    if (!facts.daemons) return unanswered(facts.daemons);
    const auto nodes = nodes_of_one_host(*facts.daemons);
    if (nodes.empty()) return {.found = "each node has a host of its own"};
    const std::string found = fmt::format("{} are on one host", fmt::join(nodes, ", "));
    const auto has_node = [&](std::string_view key) {
        return facts.configured(key).find("%n") != std::string::npos;
    };
    if (!has_node("SlurmdSpoolDir"))
        return {.severity = Severity::error,
                .found = found +
                         ", and SlurmdSpoolDir does not have %n, so a job mixes up what it "
                         "has on each of them",
                .remedy = "set SlurmdSpoolDir in slurm.conf to a path with %n for the node"};
    const bool wants_pmix = (facts.site ? facts.site->mpi : site::Site().mpi).starts_with("pmix");
    if (wants_pmix && !has_node("TmpFS"))
        return {.severity = Severity::error,
                .found = found +
                         ", and TmpFS does not have %n, so Slurm's PMIx cannot start a "
                         "step on two of them",
                .remedy =
                    "set TmpFS=/tmp/slurm-%n in slurm.conf, and make these directories on each "
                    "host (mode 1777) whenever it starts, or set mpi = \"pmi2\" in site.lua"};
    return {.found = found + ", and have directories of their own"};
}

Judgement nodes_up(const ClusterFacts& facts) {
    if (!facts.nodes) return unanswered(facts.nodes);
    std::vector<std::string> away;
    for (const slurm::NodeStatus& node : *facts.nodes) {
        if (node.state == slurm::NodeBaseState::down || node.has(slurm::NodeFlag::drain) ||
            node.has(slurm::NodeFlag::not_responding))
            away.push_back(node.reason.empty() ? fmt::format("{} ({})", node.name, node.state_text)
                                               : fmt::format("{} ({}: {})", node.name,
                                                             node.state_text, node.reason));
    }
    if (facts.nodes->empty())
        return {.severity = Severity::error,
                .found = "Slurm has no nodes",
                .remedy = "add NodeName and PartitionName lines to slurm.conf"};
    if (away.empty()) return {.found = fmt::format("{} nodes can run jobs", facts.nodes->size())};
    return {.severity = Severity::warning,
            .found = fmt::format("{} of {} nodes cannot run jobs: {}", away.size(),
                                 facts.nodes->size(), fmt::join(away, ", ")),
            .remedy = "see \"sinfo -R\""};
}

Judgement node_faults(const ClusterFacts& facts) {
    if (!facts.site) return unanswered(facts.site);
    if (!facts.site->note_failed_nodes)
        return {.found = "site.lua does not have jobs note which nodes were bad"};
    if (!facts.configuration) return unanswered(facts.configuration);
    if (!facts.keeps_comments())
        return {.severity = Severity::warning,
                .found =
                    "site.lua has jobs note which nodes were bad (note_failed_nodes), but Slurm's "
                    "accounting does not keep comments on jobs",
                .remedy =
                    "add AccountingStoreFlags=job_comment to slurm.conf, which needs slurmdbd, or "
                    "take note_failed_nodes out of site.lua"};
    if (!facts.node_faults) return unanswered(facts.node_faults);
    return judge_node_faults(*facts.node_faults);
}

constexpr std::array<Check<ClusterFacts>, 19> cluster_table{{
    {"slurm.version", "the version of Slurm",
     "The plugin is written for Slurm 22.05 and newer. It must be built for the minor version that "
     "the cluster runs.",
     slurm_version},
    {"slurm.controller", "whether slurmctld answers",
     "Without the controller nothing can be submitted, and most other checks cannot be made.",
     slurm_controller},
    {"slurm.credentials", "whether munge works on this host",
     "Slurm's commands on a host without a running munged are refused.", slurm_credentials},
    {"slurm.nodes", "whether the nodes can run jobs",
     "Nodes that are down or drained are not checked either.", nodes_up},
    {"slurm.slurmds", "whether nodes that share a host have directories of their own",
     "Several slurmd can run on a host, each for a node with a name and a port of its own. What "
     "Slurm and a job keep on a node must then not be that of another one.",
     several_slurmds},
    {"nodes.faults", "which nodes the jobs of all users have found to be bad",
     "If site.lua says note_failed_nodes = true, each job leaves in Slurm's comment which of its "
     "nodes were bad. One user only sees one job fail; what is wrong with a node shows when "
     "several "
     "do.",
     node_faults},
    {"plugin.loads", "whether srun has the plugin's options",
     "Without them, \"--job-json\" is an unknown option of sbatch, srun and salloc. Jobs of "
     "\"batchai job create\" would not have their mounts, so they are refused on the node.",
     plugin_loads},
    {"filter.active", "whether the command-line filter is active",
     "cli_filter.lua makes sbatch, srun and salloc ask for the allocation that the job file "
     "needs.",
     filter},
    {"policy.enforced", "whether the controller enforces the policy of site.lua",
     "The policy in site.lua is checked by programs of the user. Users cannot change "
     "job_submit.lua on the controller, which checks every job that it knows to be batchai's.",
     policy_enforced},
    {"mpi.types", "whether srun has the PMI that site.lua asks for",
     "The ranks of a job find each other through it.", mpi_types},
    {"site.partitions", "whether the partitions in site.lua exist",
     "Slurm refuses a job for a partition that it does not have.", site_partitions},
    {"proc.tracking", "how Slurm finds the processes of a job",
     "What cannot be found cannot be ended. With control groups Slurm finds all of them.",
     process_tracking},
    {"slurm.contain-spank", "whether the plugin runs in the job's container",
     "With contain_spank, Slurm calls the plugin inside the namespaces of job_container.",
     contain_spank},
    {"slurm.private-tmp", "whether each job has a /tmp of its own",
     "The steps of a job share its directory and its container through node_directory of "
     "site.lua, which is /tmp unless site.lua says otherwise.",
     private_tmp},
    {"slurm.taskprolog", "whether there is a TaskProlog",
     "Slurm runs it after the task has joined its container, which therefore has it. What it calls "
     "is that of the image.",
     task_prolog},
    {"slurm.requeue", "whether Slurm requeues jobs, and how soon they start again",
     "Batch AI starts a job again after a node has failed. Slurm does so only if it may, and not "
     "before a delay that the site can make shorter.",
     requeue},
    {"slurm.unkillable", "how long Slurm waits for processes that do not end",
     "A process that waits for a file server cannot be ended. If Slurm gives up too early, it "
     "drains the node.",
     unkillable},
    {"power.programs", "whether Slurm can power nodes down and up",
     "With Slurm's power saving, administrators resize clusters for real.", power_saving},
    {"slurm.accounting", "whether Slurm keeps accounts",
     "sacct knows how a job ended after squeue has forgotten it.", accounting},
}};

}  // namespace

std::span<const Check<ClusterFacts>> cluster_checks() {
    return cluster_table;
}

}  // namespace batchai::admin

// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/nodes.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/record.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "store/store.hpp"

namespace batchai::admin {

namespace {

constexpr std::size_t report_limit = 1UL << 20U;
constexpr std::size_t longest_message = 300;
// No further allocation is asked for after this time. Each takes a few minutes at most.
constexpr std::chrono::minutes longest{10};

Finding no_answer(const std::string& node, std::string why, Severity severity) {
    return {.id = "nodes.answer",
            .host = node,
            .severity = severity,
            .found = std::move(why),
            .remedy = severity == Severity::error
                          ? fmt::format(
                                "try \"srun --nodelist={} batchai admin check --this-host\"", node)
                          : "check it again when it is free"};
}

bool can_start_a_task(const slurm::NodeStatus& node) {
    using slurm::NodeFlag;
    const bool open =
        node.state == slurm::NodeBaseState::idle || node.state == slurm::NodeBaseState::mixed;
    return open && std::none_of(node.flags.begin(), node.flags.end(), [](NodeFlag flag) {
               return flag == NodeFlag::completing || flag == NodeFlag::drain ||
                      flag == NodeFlag::fail || flag == NodeFlag::invalid_registration ||
                      flag == NodeFlag::reboot_requested || flag == NodeFlag::other ||
                      flag == NodeFlag::not_responding || flag == NodeFlag::power_down ||
                      flag == NodeFlag::powered_down || flag == NodeFlag::powering_down ||
                      flag == NodeFlag::powering_up || flag == NodeFlag::reboot_issued ||
                      flag == NodeFlag::maintenance || flag == NodeFlag::reserved;
           });
}

std::string partition_of(const slurm::NodeStatus& node, const std::string& preferred) {
    const auto& partitions = node.partitions;
    if (std::find(partitions.begin(), partitions.end(), preferred) != partitions.end())
        return preferred;
    return partitions.empty() ? std::string() : partitions.front();
}

// The directory below the user's records in which the nodes write their reports.
base::Result<base::TemporaryDirectory> report_directory() {
    const auto store = TRY(store::Store::open_default());
    TRY(base::make_directories(store.home(), 0700));
    // Root must not write where another user can change what a path leads to.
    TRY(base::check_own_directory(std::filesystem::weakly_canonical(store.home())));
    return base::TemporaryDirectory::make(store.home(), "check-");
}

std::string shortened(std::string_view text) {
    return std::string(base::trim(text).substr(0, longest_message));
}

base::Result<HostFindings> report_of(const std::string& node, const std::string& path) {
    const std::string text = TRY(base::read_file(path, report_limit));
    auto report = base::from_value<HostFindings>(TRY(base::parse_json(text, "report")));
    if (!report)
        return base::fail(
            fmt::format("its report cannot be read ({}): it may have another version "
                        "of batchai",
                        report.error().what));
    // Slurm's name for the node, whatever the host calls itself.
    report->host = node;
    for (Finding& finding : report->checks)
        finding.host = node;
    return report;
}

// Says why a node has not reported: by what it has printed, or else by what srun says.
std::string why_not(const std::string& printed, const std::string& said, const base::Error& fault) {
    if (!base::trim(printed).empty()) return shortened(printed);
    if (!base::trim(said).empty()) return shortened(said);
    if (fault.exit_code != base::ExitCode::not_found) return shortened(fault.text());
    return "nothing arrives in the records of this user, which every node must see";
}

// What a group of nodes has reported.
struct Answers {
    std::vector<HostFindings> reports;
    std::vector<Finding> missing;
    base::Time earliest;
    base::Time latest;
};

class NodeCheck {
  public:
    NodeCheck(const slurm::Client& client, const site::Site& site,
              const base::TemporaryDirectory& directory, std::string program,
              const base::HeldSignals& held)
        : client_(client),
          site_(site),
          directory_(directory),
          program_(std::move(program)),
          held_(held) {}

    // Asks the nodes in one allocation. Slurm gives all of them or none, so if it gives none, each
    // half is asked by itself. A single node that it does not give is not known.
    [[nodiscard]] base::Result<std::vector<Answers>> ask(const NodeGroup& group) const {
        Answers answers{.earliest = base::now()};
        if (std::chrono::steady_clock::now() > end_) {
            for (const std::string& node : group.nodes)
                answers.missing.push_back(no_answer(
                    node,
                    fmt::format("was not asked, because the nodes before it took {} minutes",
                                longest.count()),
                    Severity::unknown));
            return std::vector{std::move(answers)};
        }
        const auto ran = TRY(client_.run_on_nodes(
            {.nodes = group.nodes,
             .partition = group.partition,
             .account = site_.account,
             .qos = site_.qos,
             .arguments = {program_, "admin", "check", "--this-host", "--json"},
             .directory = directory_.path()},
            held_));
        answers.latest = base::now();
        const bool refused = ran.standard_error.find("Unable to allocate") != std::string::npos;
        if (refused && group.nodes.size() > 1) return ask_halves(group);
        for (const std::string& node : group.nodes)
            take(node, ran.standard_error, refused, answers);
        return std::vector{std::move(answers)};
    }

  private:
    [[nodiscard]] base::Result<std::vector<Answers>> ask_halves(const NodeGroup& group) const {
        const auto middle =
            group.nodes.begin() + static_cast<std::ptrdiff_t>(group.nodes.size() / 2);
        auto answers = TRY(ask({group.partition, {group.nodes.begin(), middle}}));
        auto more = TRY(ask({group.partition, {middle, group.nodes.end()}}));
        std::move(more.begin(), more.end(), std::back_inserter(answers));
        return answers;
    }

    void take(const std::string& node, const std::string& said, bool refused, Answers& into) const {
        auto report = report_of(node, directory_.file(node + ".out"));
        if (report) {
            into.reports.push_back(std::move(*report));
            return;
        }
        const std::string printed =
            base::read_file(directory_.file(node + ".err"), report_limit).value_or("");
        into.missing.push_back(no_answer(node, why_not(printed, said, report.error()),
                                         refused ? Severity::unknown : Severity::error));
    }

    const slurm::Client& client_;
    const site::Site& site_;
    const base::TemporaryDirectory& directory_;
    std::string program_;
    const base::HeldSignals& held_;
    std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + longest;
};

// The longest list of nodes in one argument. Linux accepts 128 KiB.
constexpr std::size_t most_nodes = 1000;

void add_group(const std::string& partition, const std::vector<std::string>& names,
               std::vector<NodeGroup>& into) {
    for (std::size_t at = 0; at < names.size(); at += most_nodes) {
        const auto begin = names.begin() + static_cast<std::ptrdiff_t>(at);
        const auto end =
            begin + static_cast<std::ptrdiff_t>(std::min(most_nodes, names.size() - at));
        into.push_back({partition, {begin, end}});
    }
}

}  // namespace

base::Result<NodeChoice> choose_nodes(const std::vector<slurm::NodeStatus>& nodes,
                                      const std::vector<std::string>& wanted,
                                      const std::string& preferred_partition) {
    for (const std::string& name : wanted) {
        const bool known = std::any_of(nodes.begin(), nodes.end(),
                                       [&](const auto& node) { return node.name == name; });
        if (!known)
            return base::fail(fmt::format("Slurm has no node \"{}\"", name), "--nodes",
                              "see the nodes with \"sinfo -N\"", base::ExitCode::not_found);
    }
    NodeChoice choice;
    std::map<std::string, std::vector<std::string>> by_partition;
    for (const slurm::NodeStatus& node : nodes) {
        if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), node.name) == wanted.end())
            continue;
        if (can_start_a_task(node))
            by_partition[partition_of(node, preferred_partition)].push_back(node.name);
        else
            choice.left_out.push_back(
                no_answer(node.name, fmt::format("cannot be asked now: it is {}", node.state_text),
                          Severity::unknown));
    }
    for (const auto& [partition, names] : by_partition)
        add_group(partition, names, choice.groups);
    return choice;
}

base::Result<std::vector<Finding>> check_nodes(
    const slurm::Client& client, const site::Site& site, const NodeChoice& choice,
    const HostFindings& ours, const std::function<void(std::string_view)>& progress) {
    // Held for longer than the directory lives, so that an interrupt does not leave it behind.
    const base::HeldSignals held{SIGINT, SIGTERM, SIGHUP};
    const base::TemporaryDirectory directory = TRY(report_directory());
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return base::fail(error.message(), "/proc/self/exe");
    const NodeCheck check(client, site, directory, program.string(), held);
    std::vector<Finding> findings = choice.left_out;
    for (const NodeGroup& group : choice.groups) {
        progress(fmt::format("checking {} nodes of the partition {}", group.nodes.size(),
                             group.partition));
        for (const Answers& answers : TRY(check.ask(group))) {
            for (const HostFindings& report : answers.reports)
                findings.insert(findings.end(), report.checks.begin(), report.checks.end());
            const auto compared = compare(ours, answers.reports, answers.earliest, answers.latest);
            findings.insert(findings.end(), compared.begin(), compared.end());
            findings.insert(findings.end(), answers.missing.begin(), answers.missing.end());
        }
    }
    return findings;
}

}  // namespace batchai::admin

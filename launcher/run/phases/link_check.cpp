// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/link_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "node/bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/wire_up.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

struct MeasuredLink {
    std::size_t first = 0;  // tasks, the smaller one first
    std::size_t second = 0;
    double rate = 0;     // bytes per second
    double latency = 0;  // microseconds
};

// Both ends have measured the link.
std::vector<MeasuredLink> links_of(const std::vector<LinksOfNode>& nodes) {
    std::map<std::pair<std::size_t, std::size_t>, MeasuredLink> found;
    for (std::size_t task = 0; task < nodes.size(); ++task) {
        if (!nodes[task].report) continue;
        const auto words = base::split(nodes[task].report->links, ' ');
        for (std::size_t i = 0; i + 2 < words.size(); i += 3) {
            const auto peer = base::number_in<std::size_t>(words[i]);
            const auto rate = base::number_in<std::int64_t>(words[i + 1]);
            const auto latency = base::number_in<std::int64_t>(words[i + 2]);
            if (!peer || !rate || !latency || *peer >= nodes.size() || *peer == task || *rate <= 0)
                continue;
            const auto [first, second] = std::minmax(task, *peer);
            const MeasuredLink here{.first = first,
                                    .second = second,
                                    .rate = static_cast<double>(*rate),
                                    .latency = static_cast<double>(*latency) / 1e3};
            const auto [known, is_new] = found.try_emplace({first, second}, here);
            if (!is_new) known->second.rate = std::min(known->second.rate, here.rate);
        }
    }
    std::vector<MeasuredLink> links;
    links.reserve(found.size());
    for (const auto& [ends, link] : found)
        links.push_back(link);
    return links;
}

template <typename Member>
double middle_of(const std::vector<MeasuredLink>& links, Member member) {
    std::vector<double> numbers;
    numbers.reserve(links.size());
    for (const MeasuredLink& link : links)
        numbers.push_back(link.*member);
    const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
    std::nth_element(numbers.begin(), middle, numbers.end());
    return *middle;
}

double fastest_of(const std::vector<MeasuredLink>& links) {
    double fastest = 0;
    for (const MeasuredLink& link : links)
        fastest = std::max(fastest, link.rate);
    return fastest;
}

std::string rate_text(double rate) {
    return rate < 1e9 ? fmt::format("{:.0f} MB/s", rate / 1e6)
                      : fmt::format("{:.1f} GB/s", rate / 1e9);
}

void remark_on_slow_links(const std::vector<LinksOfNode>& nodes,
                          const std::vector<MeasuredLink>& links, LinkVerdict& verdict) {
    constexpr std::size_t fewest_links = 3;  // of fewer, nobody knows which is slow
    constexpr std::size_t most_remarks = 5;
    if (links.size() < fewest_links) return;
    // Of three nodes, a slow one has two of the three links.
    const double usual =
        links.size() == fewest_links ? fastest_of(links) : middle_of(links, &MeasuredLink::rate);
    std::vector<std::vector<double>> slow_rates(nodes.size());
    std::vector<std::size_t> counts(nodes.size());
    std::vector<const MeasuredLink*> slow;
    for (const MeasuredLink& link : links) {
        ++counts[link.first];
        ++counts[link.second];
        if (link.rate >= usual / 2) continue;
        slow.push_back(&link);
        slow_rates[link.first].push_back(link.rate);
        slow_rates[link.second].push_back(link.rate);
    }
    // A node is slow if more than half of its links are: the other end of each has good ones, too.
    std::set<std::size_t> slow_nodes;
    for (std::size_t task = 0; task < nodes.size(); ++task) {
        auto& rates = slow_rates[task];
        if (rates.size() < 2 || 2 * rates.size() <= counts[task]) continue;
        slow_nodes.insert(task);
        std::sort(rates.begin(), rates.end());
        verdict.remarks.push_back(fmt::format("{}: its links carry {}, and the usual link {}",
                                              nodes[task].node, rate_text(rates[rates.size() / 2]),
                                              rate_text(usual)));
    }
    std::size_t more = 0;
    for (const MeasuredLink* const link : slow) {
        if (slow_nodes.contains(link->first) || slow_nodes.contains(link->second)) continue;
        if (verdict.remarks.size() >= most_remarks) {
            ++more;
            continue;
        }
        verdict.remarks.push_back(fmt::format(
            "the link between {} and {} carries {}, and the usual link {}", nodes[link->first].node,
            nodes[link->second].node, rate_text(link->rate), rate_text(usual)));
    }
    if (more > 0) verdict.remarks.push_back(fmt::format("{} more links are slow", more));
}

// A task whose data does not come stops, so those that wait for it in later rounds miss theirs,
// too. Only the first round of such faults counts.
std::optional<int> first_lost_round(const std::vector<LinksOfNode>& nodes) {
    std::optional<int> first;
    for (const LinksOfNode& one : nodes) {
        if (!one.report) continue;
        const auto round = base::number_in<int>(one.report->lost_in_round);
        if (round && (!first || *round < *first)) first = round;
    }
    return first;
}

struct LinkFault {
    std::size_t task = 0;
    std::size_t peer = 0;
    std::string text;
};

// What is wrong with no partner is not a fault of a link: the wire-up check comes next, and says
// what keeps ranks from meeting.
std::vector<LinkFault> faults_of(const std::vector<LinksOfNode>& nodes) {
    const auto first_round = first_lost_round(nodes);
    std::vector<LinkFault> faults;
    for (std::size_t task = 0; task < nodes.size(); ++task) {
        const auto& report = nodes[task].report;
        if (!report || report->fault.empty()) continue;
        const auto round = base::number_in<int>(report->lost_in_round);
        if (round && *round != *first_round) continue;
        const auto peer = base::number_in<std::size_t>(report->peer);
        if (!peer || *peer >= nodes.size() || *peer == task) continue;
        faults.push_back({.task = task, .peer = *peer, .text = report->fault});
    }
    return faults;
}

void remark_on_unchecked_nodes(const std::vector<LinksOfNode>& nodes, LinkVerdict& verdict) {
    std::size_t count = 0;
    const LinksOfNode* first = nullptr;
    for (const LinksOfNode& one : nodes) {
        const bool is_checked =
            one.report && (one.report->fault.empty() || !one.report->peer.empty());
        if (is_checked) continue;
        ++count;
        // One that says why comes first.
        if (first == nullptr || (!first->report && one.report)) first = &one;
    }
    if (first == nullptr) return;
    verdict.remarks.push_back(fmt::format(
        "the links of {} of {} nodes were not checked; {}: {}", count, nodes.size(), first->node,
        first->report ? first->report->fault : std::string("it has not reported")));
}

// A node that has faults with several others is the bad end of them.
void name_fault(const std::vector<LinksOfNode>& nodes, LinkVerdict& verdict) {
    const std::vector<LinkFault> faults = faults_of(nodes);
    if (faults.empty()) return;
    const LinkFault& first = faults.front();
    verdict.fault =
        fmt::format("{} with {}: {}", nodes[first.task].node, nodes[first.peer].node, first.text);
    std::vector<std::set<std::size_t>> partners(nodes.size());
    for (const LinkFault& fault : faults) {
        partners[fault.task].insert(fault.peer);
        partners[fault.peer].insert(fault.task);
    }
    const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    const auto most = std::max_element(partners.begin(), partners.end(), fewer);
    const auto equals = std::count_if(partners.begin(), partners.end(),
                                      [&](const auto& one) { return one.size() == most->size(); });
    if (most->size() >= 2 && equals == 1)
        verdict.bad_node = nodes[static_cast<std::size_t>(most - partners.begin())].node;
}

// The program is in the bundle, of which the nodes have the same as this host.
std::string link_check_on_nodes() {
    const std::filesystem::path wire_up(program_on_nodes("mpi_bridge_wireup"));
    return wire_up.parent_path().parent_path().parent_path() /
           "lib/batchai/bundle/libexec/batchai/mpi_bridge_links";
}

// A container without the bundle cannot run the check.
constexpr std::string_view run_if_it_is_there = R"(if [ ! -x "$0" ]; then exit 0; fi
exec "$0" "$@")";

}  // namespace

LinkVerdict verdict_on(const std::vector<LinksOfNode>& nodes) {
    LinkVerdict verdict;
    remark_on_unchecked_nodes(nodes, verdict);
    name_fault(nodes, verdict);
    const std::vector<MeasuredLink> links = links_of(nodes);
    if (links.empty()) return verdict;
    const auto slowest = std::min_element(
        links.begin(), links.end(),
        [](const MeasuredLink& a, const MeasuredLink& b) { return a.rate < b.rate; });
    verdict.summary = fmt::format(
        "{} between {} nodes {} {} each way ({} to {}), with {:.0f} us",
        links.size() == 1 ? std::string("1 link") : fmt::format("{} links", links.size()),
        nodes.size(), links.size() == 1 ? "carries" : "carry",
        rate_text(middle_of(links, &MeasuredLink::rate)), rate_text(slowest->rate),
        rate_text(fastest_of(links)), middle_of(links, &MeasuredLink::latency));
    remark_on_slow_links(nodes, links, verdict);
    return verdict;
}

bool LinkCheck::wanted(const Context& context) {
    const plan::Step* const ranks = context.main_step();
    if (ranks == nullptr || !ranks->pmix || context.place.nodes.size() < 2) return false;
    const std::string* const of_job =
        plan::last_value(context.plan.environment, link_check_variable);
    const std::string setting =
        of_job != nullptr ? *of_job : from_environment(link_check_variable).value_or("");
    return !setting.empty() && setting != "0";
}

PhaseEnd LinkCheck::run(Context& context) {
    const bool in_container = context.plan.container.has_value();
    const auto reports = context.files().link_reports(context.start());
    const auto& nodes = context.place.nodes;
    expect_node_failures(context);
    record::forget_reports(reports);
    const auto result = context.steps.run(
        {.arguments = phase_arguments(
             context.plan,
             {.layout = one_task_per_node(static_cast<int>(nodes.size())),
              .nodes = context.to_name(nodes),
              .mpi = context.mpi(),
              .command = {"/bin/sh", "-c", guarded(run_if_it_is_there),
                          in_container ? node::bundle_link_check : link_check_on_nodes(),
                          "--report", reports.string()}}),
         .environment = srun_environment(step_environment(context, plan::StepKind::master)),
         .deadline = check_deadline(in_container)});
    context.log.collect_traces();
    if (result && result->exit_code != 0) {
        if (auto ending = ended_from_outside(context, *result, name))
            return {.exit_code = result->exit_code, .ending = std::move(ending)};
        if (auto ending = node_failure(context, name, false, result->stopped_by))
            return {.exit_code = result->exit_code, .ending = std::move(ending)};
    }
    std::vector<LinksOfNode> of_nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        of_nodes.push_back({nodes[i], record::link_report(reports, static_cast<int>(i))});
    const LinkVerdict verdict = verdict_on(of_nodes);
    for (const std::string& remark : verdict.remarks) {
        context.log.master(remark);
        std::printf("batchai: notice: %s\n", remark.c_str());
    }
    std::fflush(stdout);
    if (!verdict.summary.empty()) context.log.master(verdict.summary);
    if (verdict.fault.empty()) return {};
    constexpr const char* message = "A link between nodes does not carry data as it should";
    std::fprintf(stderr, "batchai: %s: %s\n", message, verdict.fault.c_str());
    return ends_with({.failure = {.code = link_check_failed,
                                  .message = message,
                                  .phase = std::string(name),
                                  .node = verdict.bad_node,
                                  .first_error_line = verdict.fault},
                      .may_start_again = true,
                      .of_node = !verdict.bad_node.empty()});
}

}  // namespace batchai::run

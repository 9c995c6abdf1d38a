// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/groups.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "visit/stacks/places.hpp"

namespace batchai::visit {

namespace {

std::string in_kernel(const KernelThread& thread) {
    std::string text;
    if (!thread.call.empty()) text += ", " + thread.call;
    if (!thread.where.empty()) text += ", in the kernel's " + thread.where;
    return text;
}

constexpr std::string_view uninterruptible = "in uninterruptible sleep";

// What is unusual about the state of a main thread.
std::string state_text(const KernelThread& thread) {
    switch (thread.state.empty() ? '?' : thread.state.front()) {
        case 'D':
            return std::string(uninterruptible) + in_kernel(thread);
        case 'T':
            return "stopped by a signal";
        case 't':
            return "stopped by a debugger";
        default:
            return {};
    }
}

std::string joined(std::string first, const std::string& second) {
    if (first.empty()) return second;
    return second.empty() ? first : first + "; " + second;
}

std::string where_in_kernel(const JobProcess& process, const KernelThread& main) {
    std::string text = main.state == "R" ? "runs" : "waits" + in_kernel(main);
    if (!process.no_python.empty())
        return text + fmt::format("; no stacks, because {}", process.no_python);
    if (!process.no_native.empty())
        text += fmt::format("; no stacks of C, because {}", process.no_native);
    return text;
}

const ThreadStack* stack_of(const std::vector<ThreadStack>& stacks, int thread) {
    const auto found = std::find_if(stacks.begin(), stacks.end(),
                                    [&](const ThreadStack& one) { return one.id == thread; });
    return found == stacks.end() ? nullptr : &*found;
}

std::vector<StackFrame> native_frames(const JobProcess& process, int thread) {
    const ThreadStack* const stack = stack_of(process.native, thread);
    return stack == nullptr ? std::vector<StackFrame>() : stack->frames;
}

const KernelThread& main_thread(const JobProcess& process) {
    static const KernelThread unknown;
    const auto found =
        std::find_if(process.kernel.begin(), process.kernel.end(),
                     [&](const KernelThread& thread) { return thread.id == process.process; });
    return found == process.kernel.end() ? unknown : *found;
}

// Other threads of a process that hang in the kernel, which Python's stacks do not tell.
std::string sleeping_threads(const JobProcess& process) {
    std::string text;
    for (const KernelThread& thread : process.kernel) {
        if (thread.id == process.process || thread.state != "D") continue;
        text =
            joined(std::move(text), fmt::format("thread {} {}", thread.name, state_text(thread)));
    }
    return text;
}

// The program without its directory, as a shell has it.
std::string name_of(const JobProcess& process) {
    const std::string_view first =
        std::string_view(process.program).substr(0, process.program.find(' '));
    return std::string(base_name(first));
}

class Grouping {
  public:
    Grouping(std::string step_of_ranks, std::optional<int> rank)
        : step_of_ranks_(std::move(step_of_ranks)), rank_(rank) {}

    void add(const std::string& node, const JobProcess& process) {
        if (rank_ && (process.rank != rank_ || process.step != step_of_ranks_)) return;
        const auto role = process.is_task ? StackRole::task : StackRole::child;
        const KernelThread& main = main_thread(process);
        // A main thread that sleeps in the kernel cannot say where it is.
        const bool main_is_known = std::any_of(process.python.begin(), process.python.end(),
                                               [](const ThreadStack& one) { return one.main; });
        if (!main_is_known) add_without_python(node, process, role, main);
        for (const ThreadStack& thread : process.python) {
            std::string where = place_text(thread.frames);
            if (thread.main)
                where =
                    joined(joined(std::move(where), state_text(main)), sleeping_threads(process));
            else if (!thread.name.empty())
                where += fmt::format(" (thread {})", thread.name);
            StackGroup& group =
                group_for(node, process, thread.main ? role : StackRole::thread, std::move(where),
                          thread.frames, native_frames(process, thread.id));
            if (thread.main && group.native.empty() && group.no_native.empty())
                group.no_native = process.no_native;
        }
        add_other_threads(node, process);
    }

    [[nodiscard]] std::vector<StackGroup> groups() && {
        std::vector<StackGroup> out;
        for (auto& [key, group] : groups_) {
            std::stable_sort(group.members.begin(), group.members.end(),
                             [](const auto& a, const auto& b) { return a.rank < b.rank; });
            out.push_back(std::move(group));
        }
        std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
            return std::tuple(a.role, -static_cast<long>(a.members.size()),
                              a.members.front().rank) <
                   std::tuple(b.role, -static_cast<long>(b.members.size()), b.members.front().rank);
        });
        return out;
    }

  private:
    void add_without_python(const std::string& node, const JobProcess& process, StackRole role,
                            const KernelThread& main) {
        const std::string name = name_of(process);
        const std::vector<StackFrame> native = native_frames(process, process.process);
        std::string where = state_text(main);
        // Where a Python is that tells nothing, the functions of its interpreter do not say either.
        const bool is_python = name.starts_with("python");
        if (where.empty() && !is_python) where = native_place(native);
        if (where.empty() || !state_text(main).empty())
            where =
                fmt::format("{} {}", name, where.empty() ? where_in_kernel(process, main) : where);
        StackGroup& group = group_for(
            node, process, role, joined(std::move(where), sleeping_threads(process)), {}, native);
        group.is_unknown = (native.empty() || is_python) && state_text(main).empty();
        if (main.asleep) group.asleep = std::max(group.asleep.value_or(0), *main.asleep);
    }

    // Those that run no Python, of which there are stacks only if somebody has asked for them.
    void add_other_threads(const std::string& node, const JobProcess& process) {
        for (const ThreadStack& thread : process.native) {
            if (thread.main || thread.frames.empty() ||
                stack_of(process.python, thread.id) != nullptr)
                continue;
            std::string where = native_place(thread.frames);
            const StackFrame& innermost = thread.frames.front();
            if (where.empty())
                where = innermost.function.empty() ? fmt::format("in {}", base_name(innermost.file))
                                                   : fmt::format("in {}()", innermost.function);
            group_for(node, process, StackRole::thread,
                      fmt::format("{} (thread {})", where, thread.name), {}, thread.frames);
        }
    }

    StackGroup& group_for(const std::string& node, const JobProcess& process, StackRole role,
                          std::string where, const std::vector<StackFrame>& frames,
                          const std::vector<StackFrame>& native) {
        std::string step = process.step == step_of_ranks_ ? std::string() : process.step;
        // Ranks at one line of the program may be at different ones of a library.
        const bool talks = talks_to_others(frames, native);
        std::string key = fmt::format("{} {} {} {}", static_cast<int>(role), step, where, talks);
        for (const StackFrame& frame : frames)
            key += fmt::format("\n{}:{}:{}", frame.file, frame.line, frame.function);
        StackGroup& group = groups_[key];
        group.role = role;
        group.step = std::move(step);
        group.where = std::move(where);
        group.frames = frames;
        group.is_in_communication = talks;
        if (group.native.empty()) group.native = native;
        group.members.push_back({.rank = process.rank, .node = node, .process = process.process});
        return group;
    }

    std::string step_of_ranks_;
    std::optional<int> rank_;
    std::map<std::string, StackGroup> groups_;
};

}  // namespace

std::string step_of_ranks(const std::vector<NodeStacks>& nodes) {
    std::map<std::string, std::set<std::optional<int>>> ranks;
    for (const NodeStacks& node : nodes) {
        for (const JobProcess& process : node.processes) {
            if (process.is_task) ranks[process.step].insert(process.rank);
        }
    }
    // Of several, the one that was started first.
    const auto order = [](const auto& one) {
        return std::pair(one.second.size(), -base::number_in<int>(one.first).value_or(0));
    };
    const auto most =
        std::max_element(ranks.begin(), ranks.end(),
                         [&](const auto& a, const auto& b) { return order(a) < order(b); });
    return most == ranks.end() ? std::string() : most->first;
}

std::vector<StackGroup> stack_groups(const std::vector<NodeStacks>& nodes,
                                     std::optional<int> rank) {
    Grouping grouping(step_of_ranks(nodes), rank);
    for (const NodeStacks& node : nodes) {
        for (const JobProcess& process : node.processes)
            grouping.add(node.node, process);
    }
    return std::move(grouping).groups();
}

namespace {

std::string who(const StackGroup& group) {
    std::vector<int> ranks;
    std::vector<std::string> nodes;
    for (const StackMember& member : group.members) {
        if (member.rank && (ranks.empty() || ranks.back() != *member.rank))
            ranks.push_back(*member.rank);
        if (std::find(nodes.begin(), nodes.end(), member.node) == nodes.end())
            nodes.push_back(member.node);
    }
    constexpr std::size_t most_nodes = 4;
    const std::string on = nodes.size() > most_nodes ? fmt::format("{} nodes", nodes.size())
                                                     : fmt::format("{}", fmt::join(nodes, ", "));
    const std::size_t count = group.members.size();
    std::string whose = ranks.empty() ? std::string("without a rank")
                                      : fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                                                    base::number_ranges(ranks, ", "));
    if (!group.step.empty()) whose += fmt::format(" of step {}", group.step);
    if (group.role == StackRole::task) return fmt::format("{} on {}", whose, on);
    std::string what;
    if (group.role == StackRole::child)
        what = count == 1 ? fmt::format("process {}", group.members.front().process)
                          : fmt::format("{} processes", count);
    else
        what = count == 1 ? std::string("a thread") : fmt::format("{} threads", count);
    return fmt::format("{} {}{} on {}", what, ranks.empty() ? "" : "of ", whose, on);
}

}  // namespace

std::string headline(const StackGroup& group) {
    std::string where = group.where;
    const std::size_t asleep = where.find(uninterruptible);
    if (group.asleep && asleep != std::string::npos)
        where.insert(asleep + uninterruptible.size(), fmt::format(" for {} s", *group.asleep));
    return fmt::format("{}: {}", who(group), where);
}

namespace {

std::string line_of(const StackFrame& frame) {
    const std::string function = frame.function.empty() ? "?" : frame.function;
    if (frame.line > 0) return fmt::format("    {}:{} in {}\n", frame.file, frame.line, function);
    return fmt::format("    {} in {}\n", frame.library.empty() ? frame.file : frame.library,
                       function);
}

}  // namespace

std::string stacks_text(const std::vector<StackGroup>& groups) {
    std::string text;
    for (const StackGroup& group : groups) {
        if (!text.empty()) text += '\n';
        text += headline(group) + '\n';
        if (group.native.empty() && !group.no_native.empty())
            text += fmt::format("    no stack of C, because {}\n", group.no_native);
        for (const auto* const frames : {&group.native, &group.frames}) {
            for (const StackFrame& frame : *frames)
                text += line_of(frame);
        }
    }
    return text;
}

}  // namespace batchai::visit

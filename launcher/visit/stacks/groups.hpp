// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "visit/stacks/answer.hpp"

// What `job stacks` shows: processes and threads that are at the same place stand together. Pure.
namespace batchai::visit {

enum class StackRole {
    task,    // the main thread of a rank
    child,   // the main thread of a process that a rank has started, such as a data loader's worker
    thread,  // another thread
};
constexpr auto json_words(StackRole /*type*/) {
    return std::array{std::pair{std::string_view("task"), StackRole::task},
                      std::pair{std::string_view("child"), StackRole::child},
                      std::pair{std::string_view("thread"), StackRole::thread}};
}

struct StackMember {
    std::optional<int> rank;
    std::string node;
    int process = 0;

    bool operator==(const StackMember&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{field("rank", &StackMember::rank), field("node", &StackMember::node),
                          field("process", &StackMember::process)};
    }
};

struct StackGroup {
    StackRole role = StackRole::task;
    std::string step;                  // Slurm's number; empty: that of the job's ranks
    std::vector<StackMember> members;  // by rank
    // In one line, such as "in all_reduce(), called at train.py:88 in step()".
    std::string where;
    std::vector<StackFrame> frames;
    // In C and C++, of its first member: others may be at other places of the same call.
    std::vector<StackFrame> native;
    std::string no_native;  // why there are none of its first member, if they were asked for
    // Of the member that has been in uninterruptible sleep for longest; none: nobody is.
    std::optional<int> asleep;  // seconds
    // Where its members are is told by the kernel only, although others tell more.
    bool is_unknown = false;
    bool is_in_communication = false;  // in a call in which ranks wait for each other

    static constexpr auto fields(auto field) {
        return std::tuple{
            field("role", &StackGroup::role),          field("step", &StackGroup::step),
            field("members", &StackGroup::members),    field("where", &StackGroup::where),
            field("frames", &StackGroup::frames),      field("native", &StackGroup::native),
            field("noNative", &StackGroup::no_native), field("asleep", &StackGroup::asleep)};
    }
};

// Returns the groups: tasks first, then children, then threads; the larger ones first. With `rank`
// only what belongs to that rank. The step with the most ranks is that of the job.
[[nodiscard]] std::vector<StackGroup> stack_groups(const std::vector<NodeStacks>& nodes,
                                                   std::optional<int> rank = {});

// Returns Slurm's number of the step with the most ranks.
[[nodiscard]] std::string step_of_ranks(const std::vector<NodeStacks>& nodes);

// Returns whose group it is and where they are, in one line.
[[nodiscard]] std::string headline(const StackGroup& group);

// Returns the groups for people to read.
[[nodiscard]] std::string stacks_text(const std::vector<StackGroup>& groups);

}  // namespace batchai::visit

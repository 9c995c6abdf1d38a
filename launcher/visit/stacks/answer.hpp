// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "visit/stacks/torch_state.hpp"

// What `job stacks` learns of a node, and how it comes from there. Pure. The other parts are:
//
//   python_dump.hpp  reads what a thread of Python has written
//   places.hpp       where a thread is, by its frames
//   groups.hpp       what the processes of a job have in common, and its text
//   torch_state.hpp  what a process tells of its collectives of torch.distributed
//   bridges.hpp      what the ranks of mpi_bridge tell together
//   torch_calls.hpp  what the ranks of torch.distributed tell together
//   wait_graph.hpp   which ranks wait for which others
//   suspect.hpp      who holds up a job that stands still
//   node/stacks/     looks at the processes of a node
//   run/watch/       asks the nodes of a running job
namespace batchai::visit {

struct StackFrame {
    std::string file;  // of the source; in C without lines of source, the program or the library
    int line = 0;      // 0: unknown
    std::string function;
    std::string library;  // the shared library of C or C++; empty: Python, or the program itself

    bool operator==(const StackFrame&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{field("file", &StackFrame::file), field("line", &StackFrame::line),
                          field("function", &StackFrame::function),
                          field("library", &StackFrame::library)};
    }
};

// What a thread does in Python, or in C and C++. The frames begin with the innermost.
struct ThreadStack {
    int id = 0;         // the kernel's
    std::string name;   // the kernel's
    bool main = false;  // it runs the program
    std::vector<StackFrame> frames;

    bool operator==(const ThreadStack&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{field("id", &ThreadStack::id), field("name", &ThreadStack::name),
                          field("main", &ThreadStack::main), field("frames", &ThreadStack::frames)};
    }
};

// A thread as the kernel sees it.
struct KernelThread {
    int id = 0;
    std::string name;
    std::string state;  // a letter of /proc/PID/stat
    std::string where;  // the kernel's function in which it waits; empty: none, or not told
    std::string call;   // "read(/data/part-7)"; empty: none, or not known
    // Seconds that it has been in uninterruptible sleep; none: it is not, or the kernel does not
    // tell.
    std::optional<int> asleep;

    bool operator==(const KernelThread&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{
            field("id", &KernelThread::id),       field("name", &KernelThread::name),
            field("state", &KernelThread::state), field("where", &KernelThread::where),
            field("call", &KernelThread::call),   field("asleep", &KernelThread::asleep)};
    }
};

// An operation of mpi_bridge that has been open for some seconds.
struct OpenOperation {
    int process_set = 0;
    std::string kind;  // "allreduce"
    std::string name;  // in quotes
    std::int64_t seconds = 0;

    bool operator==(const OpenOperation&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{field("processSet", &OpenOperation::process_set),
                          field("kind", &OpenOperation::kind), field("name", &OpenOperation::name),
                          field("seconds", &OpenOperation::seconds)};
    }
};

// What libmpi_bridge of a process tells.
struct BridgeState {
    int rank = 0;                // mpi_bridge's
    std::vector<int> waits_for;  // ranks, in their order
    std::vector<OpenOperation> operations;

    bool operator==(const BridgeState&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{field("rank", &BridgeState::rank),
                          field("waitsFor", &BridgeState::waits_for),
                          field("operations", &BridgeState::operations)};
    }
};

struct JobProcess {
    int process = 0;
    int parent = 0;
    std::optional<int> rank;  // its own, or that of the rank that has started it
    bool is_task = false;     // it is the rank itself, and not a process that the rank has started
    std::string step;         // Slurm's number; empty for the ranks of a launcher below Slurm
    std::string program;      // its arguments, as far as they fit in a line
    int threads = 0;
    // The main thread, and those that are in uninterruptible sleep.
    std::vector<KernelThread> kernel;
    std::vector<ThreadStack> python;
    // Why there are no stacks of Python; empty if there are, or if it does not run Python.
    std::string no_python;
    std::vector<ThreadStack> native;    // in C and C++, of those that were asked
    std::string no_native;              // why some of them are missing
    std::optional<BridgeState> bridge;  // none: it has not joined, or does not use mpi_bridge
    std::optional<TorchState> torch;    // none: it has no process group of torch.distributed

    bool operator==(const JobProcess&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{
            field("process", &JobProcess::process),  field("parent", &JobProcess::parent),
            field("rank", &JobProcess::rank),        field("isTask", &JobProcess::is_task),
            field("step", &JobProcess::step),        field("program", &JobProcess::program),
            field("threads", &JobProcess::threads),  field("kernel", &JobProcess::kernel),
            field("python", &JobProcess::python),    field("noPython", &JobProcess::no_python),
            field("native", &JobProcess::native),    field("noNative", &JobProcess::no_native),
            field("mpiBridge", &JobProcess::bridge), field("torch", &JobProcess::torch)};
    }
};

// What is asked of the nodes besides the main threads.
struct StacksWanted {
    bool all_threads = false;
    bool native = false;  // stacks of C and C++ also where there are some of Python
};

struct NodeStacks {
    std::string node;
    std::vector<JobProcess> processes;  // by rank, then by number
    // What NCCL says of its communicators on all nodes, in lines; only from the node of rank 0.
    std::vector<std::string> nccl;

    bool operator==(const NodeStacks&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{field("node", &NodeStacks::node),
                          field("processes", &NodeStacks::processes),
                          field("nccl", &NodeStacks::nccl)};
    }
};

// Returns the answer as lines of a step's output. Slurm keeps lines of the nodes apart if they are
// short, and a prolog may print others between them.
[[nodiscard]] std::string answer_lines(const NodeStacks& answer);

// Takes the output of the step's tasks, as it comes.
class AnswerReader {
  public:
    void feed(std::string_view bytes);
    // Returns what the node has answered, or what is wrong with its answer.
    [[nodiscard]] base::Result<NodeStacks> answer_of(const std::string& node) const;
    // The number of nodes whose answers are complete.
    [[nodiscard]] std::size_t complete() const { return complete_; }

  private:
    void take(std::string_view line);

    struct Answer {
        std::string text;
        bool complete = false;
    };
    std::map<std::string, Answer, std::less<>> answers_;
    std::string rest_;  // of a line
    std::size_t complete_ = 0;
};

}  // namespace batchai::visit

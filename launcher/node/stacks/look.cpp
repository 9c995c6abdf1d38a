// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/look.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "node/bundle/bundle.hpp"
#include "node/node_name.hpp"
#include "node/stacks/armed_python.hpp"
#include "node/stacks/bridge_state.hpp"
#include "node/stacks/job_processes.hpp"
#include "node/stacks/kernel_threads.hpp"
#include "node/stacks/native/native_stacks.hpp"
#include "node/stacks/nccl_ras.hpp"
#include "node/stacks/proc_text.hpp"
#include "node/stacks/torch_question.hpp"
#include "node/usage/processes.hpp"
#include "visit/stacks/python_dump.hpp"

namespace batchai::node {

namespace {

// How long processes may take to answer. Each of many threads takes some milliseconds.
constexpr std::chrono::milliseconds longest_for_main_threads{1500};
constexpr std::chrono::milliseconds longest_for_all_threads{5000};
// Each thread takes some milliseconds, and the first one of a large program some tenths of a
// second.
constexpr std::chrono::milliseconds longest_for_native_stacks{6000};
// NCCL waits for its threads on other hosts, which may have died.
constexpr std::chrono::milliseconds longest_for_nccl{4000};
// A wait that lasts as long is not one of those that a job makes in each step.
constexpr std::chrono::milliseconds between_bridge_looks{200};

// The threads of the program's own, but for the main one.
std::vector<pid_t> other_threads(pid_t process) {
    std::vector<pid_t> threads = threads_of(process);
    std::erase_if(threads, [&](pid_t thread) {
        return thread == process || name_of_thread(process, thread) == torch_hook_name;
    });
    return threads;
}

PythonQuestion question_to(const visit::JobProcess& process, bool all_threads) {
    PythonQuestion question{.process = process.process, .threads = {process.process}};
    if (!all_threads) return question;
    for (const pid_t thread : other_threads(process.process))
        question.threads.push_back(thread);
    return question;
}

void take_python(visit::JobProcess& process, PythonAnswer answer) {
    process.no_python = std::move(answer.why);
    for (const auto& [thread, dump] : answer.dumps) {
        auto frames = visit::frames_in_dump(dump);
        if (frames.empty()) continue;
        process.python.push_back({.id = thread,
                                  .name = name_of_thread(process.process, thread),
                                  .main = thread == process.process,
                                  .frames = std::move(frames)});
    }
}

// Some time after the first look, whether or not a Python had to be asked meanwhile.
void look_again(const std::map<pid_t, BridgeLook>& bridges,
                std::chrono::steady_clock::time_point began, SeenProcesses& processes) {
    if (bridges.empty()) return;
    std::this_thread::sleep_until(began + between_bridge_looks);
    for (const auto& [number, first] : bridges) {
        if (const auto second = look_at_bridge(number))
            processes[number].process.bridge = lasting(first, *second);
    }
}

// What sleeps in the kernel or is stopped cannot be stopped, and the kernel's view says enough. A
// job can ask to be left alone.
bool may_be_stopped(const visit::JobProcess& process, bool is_asked_for) {
    const auto is_still = [&](const visit::KernelThread& thread) {
        return thread.id == process.process && thread.state != "R" && thread.state != "S";
    };
    if (std::any_of(process.kernel.begin(), process.kernel.end(), is_still)) return false;
    const std::string environment = proc_text(process.process, "environ");
    return is_asked_for || variable_in(environment, stacks_variable).value_or("") != "0";
}

void add_native_stacks(const StacksQuestion& question, SeenProcesses& processes) {
    std::vector<NativeQuestion> questions;
    for (const auto& [number, seen] : processes) {
        const visit::JobProcess& process = seen.process;
        if (!process.python.empty() && !question.native) continue;
        if (!may_be_stopped(process, question.native)) continue;
        NativeQuestion& one = questions.emplace_back();
        one.process = number;
        one.threads = {number};
        if (!question.all_threads) continue;
        for (const pid_t thread : other_threads(number))
            one.threads.push_back(thread);
    }
    for (auto& [number, answer] : native_stacks(questions, longest_for_native_stacks)) {
        visit::JobProcess& process = processes[number].process;
        process.no_native = std::move(answer.why);
        for (auto& [thread, frames] : answer.stacks)
            process.native.push_back({.id = thread,
                                      .name = name_of_thread(number, thread),
                                      .main = thread == number,
                                      .frames = std::move(frames)});
    }
}

// Asks NCCL, whose answer takes some time, while the processes are asked. NCCL knows of all hosts,
// and each question goes to all of them: one node asks, that of the first rank.
class NcclQuestion {
  public:
    NcclQuestion(const SeenProcesses& found, const std::vector<pid_t>& processes) {
        const bool has_first_rank = std::any_of(found.begin(), found.end(), [](const auto& one) {
            return one.second.process.rank == 0;
        });
        if (!has_first_rank) return;
        try {
            lines_ = std::async(std::launch::async, [processes] {
                return nccl_status(processes, port_of_ras(processes), longest_for_nccl);
            });
        } catch (const std::system_error&) {
            // The user has as many threads as they may have. The stacks matter more.
        }
    }

    [[nodiscard]] std::vector<std::string> answer() {
        return lines_.valid() ? lines_.get() : std::vector<std::string>();
    }

  private:
    std::future<std::vector<std::string>> lines_;
};

}  // namespace

visit::NodeStacks look_at_stacks(const StacksQuestion& question) {
    const auto began = std::chrono::steady_clock::now();
    SeenProcesses found = processes_of_job(question.job_id, question.own_step);
    std::vector<PythonQuestion> questions;
    std::vector<pid_t> numbers;
    std::map<pid_t, BridgeLook> bridges;
    for (auto& [number, seen] : found) {
        seen.process.kernel = kernel_threads(number);
        if (auto look = look_at_bridge(number)) bridges.emplace(number, std::move(*look));
        questions.push_back(question_to(seen.process, question.all_threads));
        numbers.push_back(number);
    }
    const auto longest = question.all_threads ? longest_for_all_threads : longest_for_main_threads;
    // These answer while the main threads are asked for their stacks.
    TorchQuestion torch(numbers);
    NcclQuestion nccl(found, numbers);
    for (auto& [number, answer] : ask_for_python_stacks(questions, longest))
        take_python(found[number].process, std::move(answer));
    for (auto& [number, state] : torch.answers(began + longest))
        found[number].process.torch = std::move(state);
    look_again(bridges, began, found);
    leave_out_waiting_shells(found);
    mark_tasks(found);
    // It forks, which a process does better while it has one thread.
    auto nccl_said = nccl.answer();
    add_native_stacks(question, found);
    visit::NodeStacks answer{.node = node_name(), .processes = {}, .nccl = std::move(nccl_said)};
    for (auto& [number, seen] : found)
        answer.processes.push_back(std::move(seen.process));
    std::stable_sort(answer.processes.begin(), answer.processes.end(),
                     [](const auto& a, const auto& b) { return a.rank < b.rank; });
    return answer;
}

}  // namespace batchai::node

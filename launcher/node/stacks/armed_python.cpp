// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/armed_python.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.hpp"
#include "node/stacks/memory_files.hpp"
#include "node/stacks/proc_text.hpp"
#include "node/usage/processes.hpp"

namespace batchai::node {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view file_name = "batchai-stacks";
constexpr std::size_t longest_dump = 1UL << 20U;
constexpr milliseconds between_looks{2};
// After so many looks a thread is believed to have nothing to say: one that sleeps again, or runs.
// A thread that runs may not have come to its handler yet, for as long as others have the CPUs. The
// main thread, which always runs Python, gets more time than one of C that spins.
constexpr int looks_at_a_sleeper = 2;
constexpr int looks_at_a_runner = 50;
constexpr int looks_at_a_running_main_thread = 500;

// Whether a set of signals in the text of a file "status" has this one.
bool has_signal(std::string_view status, std::string_view set, int signal) {
    const auto signals = base::number_in<std::uint64_t>(value_of_line(status, set), 16);
    return signals && ((*signals >> static_cast<unsigned>(signal - 1)) & 1U) != 0;
}

// An armed process, whose threads are asked one after the other.
class Armed {
  public:
    // Reads "batchai-stacks 1 PID DESCRIPTOR SIGNAL", and checks that all of it still holds.
    static std::optional<Armed> through(const PythonQuestion& question, MemoryFile file) {
        const auto head = hook_head(file, file_name, question.process);
        if (!head || !is_of(*head, file)) return std::nullopt;
        const auto signal = head->numbers[1];
        if (signal < static_cast<unsigned>(SIGRTMIN) || signal > static_cast<unsigned>(SIGRTMAX))
            return std::nullopt;
        Armed armed;
        armed.process_ = question.process;
        armed.threads_ = question.threads;
        armed.file_ = std::move(file.file);
        armed.signal_ = static_cast<int>(signal);
        armed.head_ = head->bytes;
        return armed;
    }

    // Does what can be done without a wait. Returns whether all threads have been asked.
    [[nodiscard]] bool go_on(PythonAnswer& answer) {
        // Another command may be asking the same process.
        if (!locked_ && flock(file_.get(), LOCK_EX | LOCK_NB) != 0) return false;
        locked_ = true;
        while (at_ < threads_.size()) {
            const std::string status = proc_text(process_, fmt::format("task/{}/status", thread()));
            if (asked_) {
                // It is pending, and then blocked as long as its handler runs.
                if (has_signal(status, "SigPnd", signal_) || has_signal(status, "SigBlk", signal_))
                    return false;
                std::string dump = base::end_of_file(file_, head_, longest_dump);
                // Between the two it is neither, and the thread can be preempted there.
                const bool sleeps = value_of_line(status, "State").starts_with('S');
                if (dump.empty() && ++empty_looks_ < most_looks(sleeps)) return false;
                if (dump.empty() && at_ == 0) answer.why = no_answer;
                take(std::move(dump), answer);
            } else if (const std::string why = ask(status); !asked_) {
                if (at_ == 0) answer.why = why;
                ++at_;
            }
        }
        return true;
    }

    // The time is over.
    void give_up(PythonAnswer& answer) const {
        if (at_ != 0) return;
        answer.why = locked_ ? no_answer : "another command is asking it for its stacks";
    }

  private:
    static constexpr const char* no_answer = "it does not answer the signal";

    [[nodiscard]] pid_t thread() const { return threads_[at_]; }
    [[nodiscard]] int most_looks(bool sleeps) const {
        if (sleeps) return looks_at_a_sleeper;
        return at_ == 0 ? looks_at_a_running_main_thread : looks_at_a_runner;
    }

    // Sends the signal if the thread can take it now. Otherwise returns why it cannot, or an empty
    // text where its state says it.
    std::string ask(std::string_view status) {
        const std::string_view state = value_of_line(status, "State");
        if (state.empty() || std::string_view("SR").find(state.front()) == std::string_view::npos)
            return {};
        if (has_signal(status, "SigPnd", signal_)) return "it has not answered an earlier signal";
        if (has_signal(status, "SigBlk", signal_)) return "it blocks the signal";
        // The signal would end a process that does not handle it, as one that is ending.
        if (!has_signal(status, "SigCgt", signal_)) return "it no longer handles the signal";
        if (ftruncate(file_.get(), static_cast<off_t>(head_)) != 0 ||
            syscall(SYS_tgkill, process_, thread(), signal_) != 0)
            return strerror(errno);
        asked_ = true;
        empty_looks_ = 0;
        return {};
    }

    void take(std::string dump, PythonAnswer& answer) {
        if (!dump.empty()) answer.dumps.emplace(thread(), std::move(dump));
        (void)!ftruncate(file_.get(), static_cast<off_t>(head_));
        asked_ = false;
        ++at_;
    }

    pid_t process_ = 0;
    base::FileDescriptor file_;
    int signal_ = 0;
    std::size_t head_ = 0;  // bytes before the stacks
    std::vector<pid_t> threads_;
    std::size_t at_ = 0;
    bool locked_ = false;
    bool asked_ = false;
    int empty_looks_ = 0;
};

// Another interpreter in the same process may have armed it again. The last one is in force.
std::optional<Armed> find_armed(const PythonQuestion& question) {
    auto files = memory_files(question.process, file_name, O_RDWR | O_NONBLOCK);
    std::sort(files.begin(), files.end(),
              [](const MemoryFile& a, const MemoryFile& b) { return a.number > b.number; });
    for (MemoryFile& file : files) {
        if (auto armed = Armed::through(question, std::move(file))) return armed;
    }
    return std::nullopt;
}

}  // namespace

std::map<pid_t, PythonAnswer> ask_for_python_stacks(const std::vector<PythonQuestion>& questions,
                                                    milliseconds longest) {
    const auto deadline = Clock::now() + longest;
    std::map<pid_t, PythonAnswer> answers;
    std::map<pid_t, Armed> asked;
    for (const PythonQuestion& question : questions) {
        answers[question.process];
        if (auto armed = find_armed(question)) asked.emplace(question.process, std::move(*armed));
    }
    while (!asked.empty()) {
        for (auto at = asked.begin(); at != asked.end();)
            at = at->second.go_on(answers[at->first]) ? asked.erase(at) : std::next(at);
        if (Clock::now() >= deadline) break;
        if (!asked.empty()) std::this_thread::sleep_for(between_looks);
    }
    for (const auto& [process, armed] : asked)
        armed.give_up(answers[process]);
    return answers;
}

}  // namespace batchai::node

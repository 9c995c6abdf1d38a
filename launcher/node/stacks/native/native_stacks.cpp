// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/native/native_stacks.hpp"

#include <algorithm>
#include <csignal>
#include <string_view>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/record.hpp"
#include "base/text.hpp"
#include "node/stacks/native/permission.hpp"
#include "node/stacks/native/stack_walker.hpp"

namespace batchai::node {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view schema = "batchai-native-stacks";
// JSON has no such byte.
constexpr char after_record = '\0';

// What the child writes of a process.
struct Dump {
    int process = 0;
    struct Stack {
        int thread = 0;
        std::vector<visit::StackFrame> frames;
        static constexpr auto fields(auto field) {
            return std::tuple{field("thread", &Stack::thread), field("frames", &Stack::frames)};
        }
    };
    std::vector<Stack> stacks;
    std::string why;

    static constexpr auto fields(auto field) {
        return std::tuple{field("process", &Dump::process), field("stacks", &Dump::stacks),
                          field("why", &Dump::why)};
    }
};

// There may be no time for all threads of all processes.
std::vector<NativeQuestion> main_threads_first(const std::vector<NativeQuestion>& questions) {
    std::vector<NativeQuestion> out;
    out.reserve(2 * questions.size());
    for (const NativeQuestion& one : questions)
        out.push_back({.process = one.process, .threads = {one.threads.front()}});
    for (const NativeQuestion& one : questions) {
        if (one.threads.size() > 1)
            out.push_back(
                {.process = one.process, .threads = {one.threads.begin() + 1, one.threads.end()}});
    }
    return out;
}

struct CopiedThread {
    pid_t thread = 0;
    base::Result<ThreadCopy> copy;
};

std::vector<CopiedThread> copies_of(const NativeQuestion& question, std::size_t& room) {
    const base::FileDescriptor memory(
        open(fmt::format("/proc/{}/mem", question.process).c_str(), O_RDONLY | O_CLOEXEC));
    const std::string why_not = memory.valid() ? std::string() : why_not_allowed(question.process);
    std::vector<CopiedThread> copies;
    for (const pid_t thread : question.threads) {
        base::Result<ThreadCopy> copy = base::fail(why_not);
        if (room == 0)
            copy = base::fail("there are too many threads");
        else if (memory.valid())
            copy = copy_thread(thread, memory.get());
        if (copy) room -= std::min(room, copy->stack.size());
        copies.push_back({.thread = thread, .copy = std::move(copy)});
    }
    return copies;
}

void note_reason(std::string& why, const base::Error& error) {
    if (why.empty()) why = error.what;
}

base::Result<void> walk(const libdw::Functions& functions, const std::vector<CopiedThread>& copies,
                        Dump& dump) {
    auto walker = TRY(StackWalker::open(functions, dump.process));
    for (const auto& [thread, copy] : copies) {
        if (!copy) {
            note_reason(dump.why, copy.error());
            continue;
        }
        auto frames = walker.frames_of(thread, *copy);
        if (frames)
            dump.stacks.push_back({.thread = thread, .frames = std::move(*frames)});
        else
            note_reason(dump.why, frames.error());
    }
    return {};
}

// All threads are copied before the first file is read, so that they are seen at about the same
// moment, and nobody is stopped while a file server does not answer.
int write_dumps(const std::vector<NativeQuestion>& all_questions, int output) {
    constexpr std::size_t most_bytes = 256UL << 20U;
    const auto functions = libdw::load();
    const auto questions = main_threads_first(all_questions);
    std::vector<std::vector<CopiedThread>> copies(questions.size());
    std::size_t room = most_bytes;
    for (std::size_t i = 0; functions && i < questions.size(); ++i)
        copies[i] = copies_of(questions[i], room);
    wait_for_late_threads();
    for (std::size_t i = 0; i < questions.size(); ++i) {
        Dump dump{.process = questions[i].process, .stacks = {}, .why = {}};
        if (!functions)
            dump.why = functions.error().what;
        else if (auto walked = walk(*functions, copies[i], dump); !walked)
            note_reason(dump.why, walked.error());
        if (!base::write_all(output, base::to_record(dump, schema) + after_record)) return 1;
    }
    return 0;
}

void take(std::string_view text, std::map<pid_t, NativeAnswer>& answers) {
    auto dump = base::from_record<Dump>(text, schema);
    if (!dump) return;
    NativeAnswer& answer = answers[dump->process];
    if (answer.why.empty()) answer.why = std::move(dump->why);
    for (auto& [thread, frames] : dump->stacks)
        answer.stacks[thread] = std::move(frames);
}

// Returns what a child of this process prints until the deadline.
base::Result<std::string> dumps_of(const std::vector<NativeQuestion>& questions,
                                   Clock::time_point deadline) {
    auto pipe = TRY(base::make_pipe());
    auto child =
        TRY(base::Child::fork([&] { return write_dumps(questions, pipe.write_end.get()); }, true));
    pipe.write_end.reset(-1);
    std::string text;
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd event{.fd = pipe.read_end.get(), .events = POLLIN, .revents = 0};
        const int count = poll(&event, 1, static_cast<int>(std::max<long>(left.count(), 0)));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0 || !base::drain(pipe.read_end.get(), text)) break;
    }
    // A thread that it has stopped goes on when it ends.
    if (!child.ended_by(std::min(deadline, Clock::now() + std::chrono::milliseconds(100)))) {
        child.signal(SIGKILL);
        child.release();
    }
    return text;
}

}  // namespace

std::map<pid_t, NativeAnswer> native_stacks(const std::vector<NativeQuestion>& questions,
                                            std::chrono::milliseconds longest) {
    std::map<pid_t, NativeAnswer> answers;
    if (questions.empty()) return answers;
    const auto dumps = dumps_of(questions, Clock::now() + longest);
    // What follows the last record is a part of one.
    auto records = base::split(dumps ? std::string_view(*dumps) : std::string_view(), after_record);
    records.pop_back();
    for (const std::string_view record : records)
        take(record, answers);
    for (const NativeQuestion& question : questions) {
        if (!answers.contains(question.process))
            answers[question.process].why =
                dumps ? "there was not enough time" : dumps.error().what;
    }
    return answers;
}

}  // namespace batchai::node

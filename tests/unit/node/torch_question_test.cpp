// SPDX-License-Identifier: GPL-2.0-or-later
// A child of the test stands for a Python with batchai_torch_calls.py: it has a file in memory with
// the same head, and reads questions from a pipe. test_flight_recorder.py asks a real one.
#include "node/stacks/torch_question.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "node/stacks/memory_files.hpp"

namespace {

using batchai::node::TorchQuestion;
using batchai::visit::TorchState;
using std::chrono::milliseconds;
using testing::IsEmpty;

constexpr const char* record = R"({"schema": "batchai-torch/v1", "why": "", "rank": 2, "groups": [
    {"backend": "gloo", "name": "0", "description": "default_pg", "ranks": [0, 1, 2], "last": null,
     "open": [{"number": 7, "pointToPoint": false, "operation": "gloo:all_reduce",
               "state": "scheduled", "input": "Float [4]", "output": "Float [4]",
               "seconds": 30}]}]})";

// What the child has in its file, given the number of a question.
using Answers = std::function<std::string(const std::string&)>;

std::string well(const std::string& number) {
    const std::string text = record;
    return fmt::format("{} {}\n{}", number, text.size(), text);
}

class Child {
  public:
    explicit Child(const Answers& answers, pid_t named = 0) {
        std::array<int, 2> ready{};
        if (pipe(ready.data()) != 0) abort();
        child_ = fork();
        if (child_ == 0) live(answers, named == 0 ? getpid() : named, ready[1]);
        char byte = 0;
        (void)!read(ready[0], &byte, 1);
        close(ready[0]);
        close(ready[1]);
    }
    ~Child() { end(); }
    void end() {
        if (is_over_) return;
        is_over_ = true;
        kill(child_, SIGKILL);
        waitpid(child_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    [[nodiscard]] pid_t id() const { return child_; }
    [[nodiscard]] TorchState asked(milliseconds longest = milliseconds(20000)) const {
        TorchQuestion question({child_});
        auto answers = question.answers(std::chrono::steady_clock::now() + longest);
        EXPECT_EQ(answers.size(), 1U);
        return answers[child_];
    }

  private:
    [[noreturn]] static void live(const Answers& answers, pid_t named, int ready) {
        const int file = memfd_create("batchai-torch", MFD_CLOEXEC);
        std::array<int, 2> questions{};
        if (file < 0 || pipe(questions.data()) != 0) _exit(1);
        struct stat pipe_status {};
        if (fstat(questions[0], &pipe_status) != 0) _exit(1);
        const std::string head =
            fmt::format("batchai-torch 1 {} {} {}\n", named, file, pipe_status.st_ino);
        (void)!write(file, head.data(), head.size());
        (void)!write(ready, "r", 1);
        for (;;) {
            std::array<char, 100> line{};
            const ssize_t count = read(questions[0], line.data(), line.size());
            if (count <= 0) _exit(0);
            const std::string number(line.data(), static_cast<std::size_t>(count) - 1);
            const std::string answer = answers(number);
            (void)!ftruncate(file, static_cast<off_t>(head.size()));
            (void)!pwrite(file, answer.data(), answer.size(), static_cast<off_t>(head.size()));
        }
    }

    pid_t child_;
    bool is_over_ = false;
};

TEST(TorchQuestion, IsAnswered) {
    const Child child(well);
    for (int i = 0; i < 3; ++i) {
        const TorchState state = child.asked();
        EXPECT_EQ(state.why, "");
        EXPECT_EQ(state.rank, 2);
        ASSERT_EQ(state.groups.size(), 1U);
        ASSERT_EQ(state.groups[0].open.size(), 1U);
        EXPECT_EQ(state.groups[0].open[0].operation, "gloo:all_reduce");
        EXPECT_EQ(state.groups[0].last, std::nullopt);
    }
}

// Breaks when the answer to somebody else's question is taken, or half of one.
TEST(TorchQuestion, IsNotAnsweredByAnythingElse) {
    constexpr milliseconds short_time{50};
    const Child other([](const std::string&) { return well("1"); });
    EXPECT_EQ(other.asked(short_time).why, "it does not answer");
    const Child half([](const std::string& number) { return number + " 5000\n{"; });
    EXPECT_EQ(half.asked(short_time).why, "it does not answer");
    const Child nonsense([](const std::string& number) { return number + " 2\n{}"; });
    EXPECT_EQ(nonsense.asked().why, "its answer is not understood");
    const Child endless([](const std::string& number) { return number + " 99999999999\n{"; });
    EXPECT_EQ(endless.asked().why, "its answer is too long");
}

// Breaks when a forked child is asked through what its parent has opened.
TEST(TorchQuestion, IsNotPutToThoseThatCannotBeAsked) {
    const Child of_parent(well, getpid());
    TorchQuestion question({of_parent.id(), getpid()});
    EXPECT_THAT(question.answers(std::chrono::steady_clock::now() + milliseconds(50)), IsEmpty());
}

TEST(TorchQuestion, WaitsUntilNobodyElseAsks) {
    const Child child(well);
    auto files = batchai::node::memory_files(child.id(), "batchai-torch", O_RDWR);
    ASSERT_EQ(files.size(), 1U);
    ASSERT_EQ(flock(files[0].file.get(), LOCK_EX), 0);
    EXPECT_EQ(child.asked(milliseconds(50)).why, "another command is asking it");
    files.clear();
    EXPECT_EQ(child.asked().why, "");
}

// Breaks when others cannot ask before the whole node has been looked at.
TEST(TorchQuestion, LetsOthersAskOnceItIsOver) {
    const Child child([](const std::string&) { return std::string(); });
    TorchQuestion first({child.id()});
    EXPECT_EQ(first.answers(std::chrono::steady_clock::now())[child.id()].why,
              "it does not answer");
    EXPECT_EQ(child.asked(milliseconds(50)).why, "it does not answer");
}

// Breaks when the end of one process ends the command, which asks all of them.
TEST(TorchQuestion, MayBePutToAProcessThatEnds) {
    auto* const before = std::signal(SIGPIPE, SIG_IGN);
    Child child(well);
    auto files = batchai::node::memory_files(child.id(), "batchai-torch", O_RDWR);
    ASSERT_EQ(files.size(), 1U);
    ASSERT_EQ(flock(files[0].file.get(), LOCK_EX), 0);
    TorchQuestion question({child.id()});
    child.end();
    files.clear();
    EXPECT_EQ(
        question.answers(std::chrono::steady_clock::now() + milliseconds(20000))[child.id()].why,
        "it has ended");
    std::signal(SIGPIPE, before);
}

}  // namespace

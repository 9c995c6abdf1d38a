// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline.hpp"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace/trace.hpp"
#include "trace_files.hpp"

namespace mpi_bridge {
namespace {

using test::check_nesting;
using test::count;
using test::Directory;
using test::load;
using testing::HasSubstr;

// An allreduce as the engine tells it.
void tell_operation(Timeline& timeline, std::string_view tensor) {
    const Details details{4096, MPIB_FLOAT32, 1, 2};
    timeline.begin({tensor, Phase::negotiate}, details);
    timeline.tick({tensor}, 0);
    timeline.tick({tensor}, 1);
    timeline.end({tensor, Phase::negotiate});
    timeline.begin({tensor, Phase::operation}, details);
    timeline.begin({tensor, Phase::queue});
    timeline.end({tensor, Phase::queue});
    timeline.begin({tensor, Phase::shm}, details);
    timeline.end({tensor, Phase::shm});
    timeline.end({tensor, Phase::operation});
}

TEST(Timeline, IsOffAtFirstAndThenCostsNothingToTell) {
    Timeline timeline;
    EXPECT_FALSE(timeline.on());
    tell_operation(timeline, "t");
    EXPECT_TRUE(timeline.stop());
}

TEST(Timeline, IsAFileThatAViewerLoads) {
    const Directory directory;
    Timeline timeline;
    ASSERT_TRUE(timeline.start(directory.file("t"), 3, 4));
    EXPECT_TRUE(timeline.on());
    tell_operation(timeline, "grad/\"w\"\n");
    timeline.mark("plan made", {-1, -1, -1, 5});
    timeline.device({"grad/w", Phase::nccl}, Clock::now(), std::chrono::microseconds(7));
    ASSERT_TRUE(timeline.stop());
    EXPECT_FALSE(timeline.on());
    const auto events = load(directory.file("t.3.json"));
    EXPECT_EQ(check_nesting(events), 0U);
    EXPECT_EQ(count(events, "B", "NEGOTIATE_ALLREDUCE"), 1U);
    EXPECT_EQ(count(events, "B", "ALLREDUCE"), 1U);
    EXPECT_EQ(count(events, "i", "1"), 1U);
    EXPECT_EQ(count(events, "i", "plan made"), 1U);
    EXPECT_EQ(count(events, "X", "NCCL_ALLREDUCE"), 1U);
    for (const auto& event : events.array_range())
        EXPECT_EQ(event["pid"], 3);
}

TEST(Timeline, OfNothingIsLoadableToo) {
    const Directory directory;
    Timeline timeline;
    ASSERT_TRUE(timeline.start(directory.file("t"), 0, 1));
    EXPECT_EQ(load(directory.file("t.0.json"))[0]["name"], "clock");
    ASSERT_TRUE(timeline.stop());
    EXPECT_EQ(load(directory.file("t.0.json"))[0]["name"], "clock");
}

TEST(Timeline, LeavesWhatHasNotEndedOpen) {
    const Directory directory;
    Timeline timeline;
    ASSERT_TRUE(timeline.start(directory.file("t"), 0, 1));
    timeline.begin({"t", Phase::negotiate});
    ASSERT_TRUE(timeline.stop());
    EXPECT_EQ(check_nesting(load(directory.file("t.0.json"))), 1U);
}

TEST(Timeline, CanBeStartedAgainAndOverwrites) {
    const Directory directory;
    Timeline timeline;
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(timeline.start(directory.file("t"), 0, 1));
        for (int i = round; i < 3; ++i)
            tell_operation(timeline, "t");
        ASSERT_TRUE(timeline.stop());
    }
    EXPECT_EQ(count(load(directory.file("t.0.json")), "B", "ALLREDUCE"), 1U);
}

TEST(Timeline, IsOneAtATime) {
    const Directory directory;
    Timeline timeline;
    ASSERT_TRUE(timeline.start(directory.file("a"), 0, 1));
    const Done second = timeline.start(directory.file("b"), 0, 1);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().status, MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(second.error().text, HasSubstr("a.0.json"));
    EXPECT_FALSE(std::filesystem::exists(directory.file("b.0.json")));
    EXPECT_TRUE(timeline.stop());
    EXPECT_TRUE(timeline.stop());
}

TEST(Timeline, NamesAFileThatCannotBeCreated) {
    Timeline timeline;
    const Done started = timeline.start("/nonexistent/t", 5, 8);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().status, MPIB_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(started.error().text,
              "timeline: cannot create \"/nonexistent/t.5.json\": No such file or directory");
    EXPECT_FALSE(timeline.on());
}

TEST(Timeline, NamesAFileIntoWhichNothingCanBeWritten) {
    const Directory directory;
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit nothing{0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &nothing), 0);
    Timeline timeline;
    const Done started = timeline.start(directory.file("t"), 0, 1);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    ASSERT_FALSE(started);
    EXPECT_THAT(started.error().text, HasSubstr("File too large"));
}

// Breaks when who can write to the directory has a file of the user's truncated, or the job wait.
TEST(Timeline, FollowsNoLinkAndWaitsForNoReader) {
    const Directory directory;
    std::ofstream(directory.file("mine")) << "kept";
    std::filesystem::create_symlink(directory.file("mine"), directory.file("t.0.json"));
    ASSERT_EQ(mkfifo(directory.file("t.1.json").c_str(), 0600), 0);
    for (const int rank : {0, 1}) {
        Timeline timeline;
        const Done started = timeline.start(directory.file("t"), rank, 2);
        ASSERT_FALSE(started);
        EXPECT_THAT(started.error().text, HasSubstr("timeline: cannot create"));
    }
    EXPECT_EQ(std::filesystem::file_size(directory.file("mine")), 4U);
}

TEST(Timeline, HasTheModeThatTheUmaskLeaves) {
    const Directory directory;
    const mode_t before = umask(027);
    Timeline timeline;
    ASSERT_TRUE(timeline.start(directory.file("t"), 0, 1));
    umask(before);
    struct stat found = {};
    ASSERT_EQ(stat(directory.file("t.0.json").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0640U);
}

TEST(Timeline, KeepsItsOrderAcrossManyThreads) {
    const Directory directory;
    Timeline timeline;
    ASSERT_TRUE(timeline.start(directory.file("t"), 0, 1));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&timeline, t] {
            const std::string tensor = "t" + std::to_string(t);
            for (int i = 0; i < 500; ++i)
                tell_operation(timeline, tensor);
        });
    }
    for (auto& thread : threads)
        thread.join();
    ASSERT_TRUE(timeline.stop());
    const auto events = load(directory.file("t.0.json"));
    EXPECT_EQ(check_nesting(events), 0U);
    EXPECT_EQ(count(events, "E", "SHM_ALLREDUCE"), 2000U);
}

TEST(Timeline, StaysWholeWhileStartAndStopRaceWithThreads) {
    const Directory directory;
    Timeline timeline;
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            const std::string tensor = "t" + std::to_string(t);
            while (!done) {
                tell_operation(timeline, tensor);
                std::this_thread::yield();
            }
        });
    }
    threads.emplace_back([&] {
        while (!done) {
            const Done ignored = timeline.stop();
            static_cast<void>(ignored);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    for (int round = 0; round < 20; ++round) {
        const Done started = timeline.start(directory.file("t"), 0, 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        ASSERT_TRUE(timeline.stop());
        if (started) check_nesting(load(directory.file("t.0.json")));
    }
    done = true;
    for (auto& thread : threads)
        thread.join();
}

TEST(Timeline, BurstsThatDoNotFitAreCountedAndTheRestStaysNested) {
    const Directory directory;
    Timeline timeline;
    ASSERT_TRUE(timeline.start(directory.file("t"), 0, 1));
    // Names of 4 KiB fill the queue faster than they can be formatted.
    const std::string tensor(4096, 'n');
    constexpr std::size_t operations = 4000;
    testing::internal::CaptureStderr();
    for (std::size_t i = 0; i < operations; ++i)
        tell_operation(timeline, tensor);
    ASSERT_TRUE(timeline.stop());
    const std::string said = testing::internal::GetCapturedStderr();
    const auto events = load(directory.file("t.0.json"));
    check_nesting(events);
    std::size_t dropped = 0;
    for (const auto& event : events.array_range()) {
        if (event["name"] == "events dropped") dropped += event["args"]["count"].as<std::size_t>();
    }
    EXPECT_EQ(dropped > 0, !said.empty()) << said;
    // What is neither dropped nor written is an end whose beginning was dropped, or the like.
    std::size_t written = 0;
    for (const auto& event : events.array_range()) {
        if (event["ph"] != "M" && event["name"] != "events dropped") ++written;
    }
    EXPECT_LE(written, operations * 10);
    if (dropped == 0) {
        EXPECT_EQ(written, operations * 10);
    }
}

// Runs the body in a process of its own and returns how that ended. The body must not return.
template <typename Body>
int status_of_child(Body body) {
    const pid_t child = fork();
    if (child == 0) {
        body();
        _exit(99);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
}

// Until the file of a timeline that is being written has this text, at most half a minute.
void wait_for(const std::string& path, const std::string& text) {
    const Deadline deadline = Deadline::in(Seconds(30));
    while (test::contents(path).find(text) == std::string::npos && !deadline.passed())
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(Timeline, OfAKilledProcessLoads) {
    const Directory directory;
    const std::string path = directory.file("t.0.json");
    const int status = status_of_child([&] {
        Timeline timeline;
        if (!timeline.start(directory.file("t"), 0, 1)) _exit(1);
        tell_operation(timeline, "t");
        timeline.begin({"hangs", Phase::negotiate});
        wait_for(path, "hangs");
        raise(SIGKILL);
    });
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    const auto events = load(path);
    EXPECT_EQ(count(events, "E", "ALLREDUCE"), 1U);
    EXPECT_EQ(check_nesting(events), 1U);
}

TEST(Timeline, OfTheProcessIsCompletedAtExit) {
    const Directory directory;
    const int status = status_of_child([&] {
        if (!start_timeline(directory.file("t"), 1, 2)) _exit(1);
        for (int i = 0; i < 100; ++i)
            tell_operation(trace().timeline, "t");
        exit(0);  // NOLINT(concurrency-mt-unsafe): that is what is tested
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(count(load(directory.file("t.1.json")), "E", "ALLREDUCE"), 100U);
}

TEST(Timeline, IsLeftAloneByAForkedChild) {
    const Directory directory;
    Timeline timeline;
    ASSERT_TRUE(timeline.start(directory.file("t"), 0, 1));
    tell_operation(timeline, "t");
    const int status = status_of_child([&] { _exit(timeline.stop() && !timeline.on() ? 0 : 1); });
    EXPECT_EQ(status, 0);
    tell_operation(timeline, "t");
    ASSERT_TRUE(timeline.stop());
    EXPECT_EQ(count(load(directory.file("t.0.json")), "E", "ALLREDUCE"), 2U);
}

TEST(Timeline, ThatCannotGrowSaysSoAndStaysLoadable) {
    const Directory directory;
    const std::string path = directory.file("t.0.json");
    const int status = status_of_child([&] {
        signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{20000, 20000};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
        Timeline timeline;
        if (!timeline.start(directory.file("t"), 0, 1)) _exit(2);
        tell_operation(timeline, "first");
        wait_for(path, "first");
        while (timeline.on()) {
            tell_operation(timeline, "t");
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const Done stopped = timeline.stop();
        const bool told = !stopped && stopped.error().status == MPIB_ERROR_INTERNAL &&
                          stopped.error().text.find("File too large") != std::string::npos;
        _exit(told ? 0 : 3);
    });
    EXPECT_EQ(status, 0);
    const auto events = load(path);
    check_nesting(events);
    EXPECT_GE(count(events, "E", "ALLREDUCE"), 1U);
}

TEST(TimelineFromEnvironment, PrefersItsOwnName) {
    const Directory directory;
    const int status = status_of_child([&] {
        const auto environment = [&](const char* name) -> std::optional<std::string> {
            if (name == std::string_view("MPI_BRIDGE_TIMELINE")) return directory.file("ours");
            return directory.file("theirs");
        };
        exit(start_timeline_from_environment(environment, 0, 1) ? 0 : 1);
    });
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(std::filesystem::exists(directory.file("ours.0.json")));
    EXPECT_FALSE(std::filesystem::exists(directory.file("theirs.0.json")));
}

TEST(TimelineFromEnvironment, WaitsWhereHorovodsIsDynamic) {
    const auto dynamic = [](const char* name) -> std::optional<std::string> {
        if (name == std::string_view("HOROVOD_TIMELINE")) return "DYNAMIC";
        return std::nullopt;
    };
    ASSERT_TRUE(start_timeline_from_environment(dynamic, 0, 1));
    EXPECT_FALSE(trace().timeline.on());
}

TEST(TimelineFromEnvironment, NamesTheVariableOfAPathThatCannotBeWritten) {
    const auto unwritable = [](const char* name) -> std::optional<std::string> {
        if (name == std::string_view("HOROVOD_TIMELINE")) return "/nonexistent/t";
        return std::nullopt;
    };
    const Done started = start_timeline_from_environment(unwritable, 0, 1);
    ASSERT_FALSE(started);
    EXPECT_THAT(started.error().text, HasSubstr("HOROVOD_TIMELINE: timeline: cannot create"));
}

}  // namespace
}  // namespace mpi_bridge

// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "visit/stacks/bridges.hpp"
#include "visit/stacks/groups.hpp"
#include "visit/stacks/places.hpp"

namespace {

using batchai::visit::bridge_text;
using batchai::visit::JobProcess;
using batchai::visit::NodeStacks;
using batchai::visit::place_text;
using batchai::visit::stack_groups;
using batchai::visit::StackFrame;
using batchai::visit::StackRole;
using batchai::visit::stacks_text;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::vector<StackFrame> in_allreduce{
    {"/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2806,
     "all_reduce"},
    {"/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", 83, "wrapper"},
    {"/home/alice/train.py", 88, "step"},
    {"/home/alice/train.py", 120, "<module>"}};
const std::vector<StackFrame> in_load{{"/home/alice/data.py", 41, "load"},
                                      {"/home/alice/train.py", 120, "<module>"}};

JobProcess rank(int number, const std::vector<StackFrame>& frames, const std::string& state = "S") {
    return {.process = 100 + number,
            .parent = 1,
            .rank = number,
            .is_task = true,
            .step = "1",
            .program = "/usr/bin/python3 train.py",
            .threads = 1,
            .kernel =
                {{.id = 100 + number, .name = "python3", .state = state, .where = {}, .call = {}}},
            .python = {{.name = {}, .main = true, .frames = frames}},
            .no_python = {}};
}

std::string text_of(const std::vector<NodeStacks>& nodes) {
    return stacks_text(stack_groups(nodes));
}

// Breaks when ranks at the same place on several nodes do not stand together, or when the rank that
// is elsewhere is not told.
TEST(StackGroups, PutsEqualStacksTogether) {
    std::vector<NodeStacks> nodes{{"n1", {}}, {"n2", {}}};
    for (int number = 0; number < 8; ++number)
        nodes[number < 4 ? 0 : 1].processes.push_back(
            rank(number, number == 6 ? in_load : in_allreduce, number == 6 ? "D" : "S"));
    nodes[1].processes[2].kernel[0].where = "nfs_wait_bit_killable";
    nodes[1].processes[2].kernel[0].call = "read(/scratch/part-7)";
    const auto groups = stack_groups(nodes);
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_EQ(groups[0].members.size(), 7U);
    EXPECT_EQ(groups[0].where, "in all_reduce(), called at train.py:88 in step()");
    EXPECT_EQ(groups[1].where,
              "at data.py:41 in load(); in uninterruptible sleep, read(/scratch/part-7), in the "
              "kernel's nfs_wait_bit_killable");
    const std::string text = stacks_text(groups);
    EXPECT_THAT(text, HasSubstr("ranks 0-5, 7 on n1, n2: in all_reduce(), called at train.py:88"));
    EXPECT_THAT(text, HasSubstr("rank 6 on n2: at data.py:41 in load(); in uninterruptible sleep"));
    EXPECT_THAT(text, HasSubstr("    /home/alice/train.py:88 in step\n"));
    EXPECT_EQ(stack_groups(nodes, 6).size(), 1U);
}

TEST(StackGroups, SaysWhatIsUnusualAboutAState) {
    const std::string stopped = text_of({{"n1", {rank(0, in_allreduce, "T")}}});
    EXPECT_THAT(stopped, HasSubstr("step(); stopped by a signal\n"));
    // The kernel's words for an ordinary wait would only keep ranks apart.
    JobProcess waits = rank(0, in_allreduce);
    waits.kernel[0].where = "futex_wait_queue";
    EXPECT_EQ(stack_groups({{"n1", {waits, rank(1, in_allreduce, "R")}}}).size(), 1U);
}

TEST(StackGroups, NamesProgramsWithoutPython) {
    JobProcess plain = rank(3, {});
    plain.python.clear();
    plain.program = "/opt/app/solver --fast";
    plain.kernel[0].where = "futex_wait_queue";
    EXPECT_THAT(text_of({{"n1", {plain}}}),
                HasSubstr("rank 3 on n1: solver waits, in the kernel's futex_wait_queue\n"));
    plain.kernel[0] = {.id = 103, .name = "solver", .state = "R", .where = {}, .call = {}};
    plain.no_python = "it does not answer the signal";
    EXPECT_THAT(text_of({{"n1", {plain}}}),
                HasSubstr("solver runs; no stacks, because it does not answer the signal\n"));
}

JobProcess solver(int number, const std::vector<StackFrame>& frames) {
    JobProcess process = rank(number, {});
    process.python.clear();
    process.program = "/opt/app/solver --fast";
    process.native = {{.id = process.process, .name = "solver", .main = true, .frames = frames}};
    return process;
}

// Breaks when ranks that wait in the same call are told apart by where the library is just now.
TEST(StackGroups, NamesTheCallOfAProgramInC) {
    const StackFrame call{"/opt/mpi/libmpi.so.40", 0, "MPI_Allreduce", "libmpi.so.40"};
    const StackFrame step{"src/solver.c", 71, "step", {}};
    const std::string text = text_of(
        {{"n1",
          {solver(0, {{"/lib/libc.so.6", 0, "poll", "libc.so.6"}, call, step}),
           solver(1, {{"/opt/mpi/libmpi.so.40", 0, {}, "libmpi.so.40"}, call, step}),
           solver(2, {{"/lib/libc.so.6", 0, "__read", "libc.so.6"}, {"src/in.c", 9, "load", {}}}),
           solver(3, {{"/opt/app/solver", 0, "spin", {}}})}}});
    EXPECT_THAT(text, HasSubstr("ranks 0-1 on n1: in MPI_Allreduce(), called at solver.c:71 in "
                                "step()\n    libc.so.6 in poll\n    libmpi.so.40 in "
                                "MPI_Allreduce\n    src/solver.c:71 in step\n"));
    EXPECT_THAT(text, HasSubstr("rank 2 on n1: in read(), called at in.c:9 in load()\n"));
    EXPECT_THAT(text,
                HasSubstr("rank 3 on n1: at solver in spin()\n    /opt/app/solver in spin\n"));
}

// Breaks when ranks of a program whose code is in a library are all at the one line of its main().
TEST(StackGroups, TellsRanksInACallOfMpiFromThoseInALibraryOfTheProgram) {
    const StackFrame main{"src/main.c", 5, "main", {}};
    const StackFrame run{"/opt/app/libsolver.so", 0, "run", "libsolver.so"};
    const StackFrame call{"/opt/mpi/libmpi.so.40", 0, "MPI_Allreduce", "libmpi.so.40"};
    const auto groups =
        stack_groups({{"n1", {solver(0, {call, run, main}), solver(1, {run, main})}}});
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_TRUE(groups[0].is_in_communication);
    EXPECT_FALSE(groups[1].is_in_communication);
    // A library of communication with lines does not hide the user's line.
    const StackFrame inner{"/build/ucx/worker.c", 7, "progress", "libucp.so.0"};
    const StackFrame line{"src/solver.c", 71, "step", {}};
    EXPECT_THAT(text_of({{"n1", {solver(0, {inner, call, line, main})}}}),
                HasSubstr("in MPI_Allreduce(), called at solver.c:71 in step()\n"));
    // With lines, the library is the user's own.
    const StackFrame load{"src/in.c", 9, "load", "libsolver.so"};
    EXPECT_THAT(text_of({{"n1", {solver(0, {load, run, main})}}}),
                HasSubstr("rank 0 on n1: at in.c:9 in load()\n"));
}

TEST(StackGroups, SaysTheKernelsViewOfAProgramThatTellsNoFunctions) {
    JobProcess stripped =
        solver(0, {{"/lib/libc.so.6", 0, "read", "libc.so.6"}, {"/a/s", 0, {}, {}}});
    stripped.kernel[0].where = "pipe_read";
    EXPECT_THAT(text_of({{"n1", {stripped}}}),
                HasSubstr("rank 0 on n1: solver waits, in the kernel's pipe_read\n    libc.so.6 in "
                          "read\n    /a/s in ?\n"));
    stripped.native.clear();
    stripped.no_native = "there is no libdw";
    EXPECT_THAT(text_of({{"n1", {stripped}}}),
                HasSubstr("pipe_read; no stacks of C, because there is no libdw\n"));
}

// Breaks when somebody asks for stacks of C beside those of Python, and is not told why none came.
TEST(StackGroups, SaysWhyAStackOfCIsMissingBesideThatOfPython) {
    JobProcess python = rank(0, in_load);
    EXPECT_THAT(text_of({{"n1", {python}}}), Not(HasSubstr("no stack")));
    python.no_native = "there is no libdw";
    EXPECT_THAT(
        text_of({{"n1", {python}}}),
        HasSubstr("load()\n    no stack of C, because there is no libdw\n    /home/alice/"));
    JobProcess other = rank(1, in_load);
    other.python[0].id = other.process;
    other.native = {{.id = other.process, .name = {}, .main = true, .frames = in_load}};
    EXPECT_THAT(text_of({{"n1", {python, other}}}), Not(HasSubstr("no stack")));
}

TEST(StackGroups, SaysForHowLongTheyHaveBeenAsleep) {
    std::vector<NodeStacks> nodes{{"n1", {rank(0, {}, "D"), rank(1, {}, "D")}}};
    for (JobProcess& process : nodes[0].processes)
        process.python.clear();
    nodes[0].processes[0].kernel[0].asleep = 3;
    nodes[0].processes[1].kernel[0].asleep = 214;
    EXPECT_THAT(text_of(nodes),
                HasSubstr("ranks 0-1 on n1: python3 in uninterruptible sleep for 214 s\n"));
}

// Breaks when a data loader's worker, or a thread of its own, is taken for a rank.
TEST(StackGroups, KeepsChildrenAndThreadsApart) {
    JobProcess main = rank(0, in_allreduce);
    main.python.insert(main.python.begin(), {.name = "prefetch", .main = false, .frames = in_load});
    JobProcess worker = rank(0, in_load);
    worker.process = 777;
    worker.is_task = false;
    const std::vector<NodeStacks> nodes{{"n1", {main, worker}}};
    const auto groups = stack_groups(nodes);
    ASSERT_EQ(groups.size(), 3U);
    EXPECT_EQ(groups[0].role, StackRole::task);
    EXPECT_EQ(groups[1].role, StackRole::child);
    EXPECT_EQ(groups[2].role, StackRole::thread);
    EXPECT_THAT(text_of(nodes), HasSubstr("process 777 of rank 0 on n1: at data.py:41 in load()"));
    EXPECT_THAT(text_of(nodes),
                HasSubstr("a thread of rank 0 on n1: at data.py:41 in load() (thread prefetch)"));
}

// Breaks when what somebody looks at by `job shell` is taken for the job's ranks.
TEST(StackGroups, NamesTheStepOfProcessesThatAreNotRanks) {
    JobProcess visitor = rank(0, in_load);
    visitor.step = "5";
    const std::string text =
        text_of({{"n1", {rank(0, in_allreduce), visitor}}, {"n2", {rank(1, in_allreduce)}}});
    EXPECT_THAT(text, HasSubstr("ranks 0-1 on n1, n2: "));
    EXPECT_THAT(text, HasSubstr("rank 0 of step 5 on n1: "));
    JobProcess launcher = rank(0, in_load);
    launcher.rank.reset();
    launcher.is_task = false;
    launcher.step = "7";
    EXPECT_THAT(text_of({{"n1", {rank(0, in_allreduce), launcher}}}),
                HasSubstr("process 100 without a rank of step 7 on n1: "));
}

JobProcess of_bridge(int number, std::vector<int> waits_for,
                     std::vector<batchai::visit::OpenOperation> operations) {
    JobProcess process = rank(number, in_allreduce);
    process.bridge = {
        .rank = number, .waits_for = std::move(waits_for), .operations = std::move(operations)};
    return process;
}

// Breaks when the rank that others wait for is not named, or one that waits itself is blamed.
TEST(BridgeText, NamesTheRanksThatHaveNotCome) {
    EXPECT_EQ(bridge_text({{"n1", {rank(0, in_allreduce)}}}), "");
    EXPECT_EQ(bridge_text({{"n1", {of_bridge(0, {}, {}), of_bridge(1, {}, {})}}}), "");
    EXPECT_EQ(
        bridge_text(
            {{"n1",
              {of_bridge(0, {}, {{0, "allreduce", "\"a\"", 12}}),
               of_bridge(1, {}, {{0, "allreduce", "\"a\"", 35}, {2, "broadcast", "\"b\"", 3}})}},
             {"n2", {of_bridge(2, {}, {})}}}),
        "mpi_bridge: allreduce \"a\" has been open for 35 s on ranks 0-1; rank 2 has not "
        "submitted it, or did so less than 2 s ago\n"
        "mpi_bridge: broadcast \"b\" has been open for 3 s on rank 1, in process set 2\n");
    EXPECT_EQ(bridge_text({{"n1", {of_bridge(0, {3}, {}), of_bridge(1, {0}, {})}},
                           {"n2", {of_bridge(2, {1}, {}), of_bridge(3, {}, {})}}}),
              "mpi_bridge: ranks 0-2 wait for rank 3, which waits for nobody\n");
    EXPECT_EQ(bridge_text({{"n1", {of_bridge(0, {1}, {}), of_bridge(1, {0}, {})}}}),
              "mpi_bridge: ranks 0-1 wait for each other\n");
    EXPECT_EQ(bridge_text({{"n1", {of_bridge(0, {5}, {})}}}),
              "mpi_bridge: rank 0 waits for rank 5, of which no process was found\n");
    EXPECT_EQ(bridge_text({{"n1",
                            {of_bridge(0, {1}, {}), of_bridge(1, {0}, {}), of_bridge(2, {3}, {}),
                             of_bridge(3, {}, {})}}}),
              "mpi_bridge: ranks 0-1 wait for each other\n"
              "mpi_bridge: rank 2 waits for rank 3, which waits for nobody\n");
    // Rank 1 has joined, and rank 2 is in a message.
    EXPECT_EQ(bridge_text({{"n1",
                            {of_bridge(0, {}, {{0, "allreduce", "\"a\"", 12}}),
                             of_bridge(1, {}, {{0, "join", "\"join\"", 12}}), of_bridge(2, {3}, {}),
                             of_bridge(3, {}, {})}}}),
              "mpi_bridge: allreduce \"a\" has been open for 12 s on rank 0; rank 3 has not "
              "submitted it, or did so less than 2 s ago\n"
              "mpi_bridge: rank 2 waits for rank 3, which waits for nobody\n");
}

TEST(StackGroups, FindsTheUsersOwnCode) {
    EXPECT_EQ(place_text({}), "runs no Python code");
    EXPECT_EQ(place_text({{"/usr/lib/python3.11/threading.py", 3, "wait"}}),
              "at threading.py:3 in wait()");
    EXPECT_EQ(place_text({{"<frozen importlib._bootstrap>", 3, "_find"}, {"a.py", 1, "<module>"}}),
              "in _find(), called at a.py:1");
    EXPECT_EQ(place_text({{"<string>", 1, "<module>"}}), "at <string>:1");
}

}  // namespace

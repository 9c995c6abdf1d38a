// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/torch_calls.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "visit/stacks/nccl_text.hpp"
#include "visit/stacks/suspect.hpp"

namespace batchai::visit {
namespace {

using testing::HasSubstr;

TorchCall call(std::int64_t number, std::int64_t seconds, std::string operation = "gloo:all_reduce",
               std::string input = "Float [4]") {
    return {.number = number,
            .point_to_point = false,
            .operation = std::move(operation),
            .state = "scheduled",
            .input = std::move(input),
            .output = {},
            .seconds = seconds};
}

TorchGroup group(std::vector<TorchCall> open, std::optional<TorchCall> last,
                 std::vector<int> ranks = {0, 1, 2, 3}, std::string description = "default_pg") {
    return {.backend = "gloo",
            .name = "0",
            .description = std::move(description),
            .ranks = std::move(ranks),
            .open = std::move(open),
            .last = std::move(last)};
}

// In a call that it has made, and not left.
TorchGroup in(const TorchCall& open) {
    return group({open}, open);
}

JobProcess rank(int number, std::vector<TorchGroup> groups) {
    JobProcess process{.process = 100 + number, .parent = 1, .rank = number, .is_task = true};
    process.step = "1";
    process.program = "python3 train.py";
    process.kernel = {{.id = 100 + number, .name = "python3", .state = "S"}};
    process.python = {{.name = {}, .main = true, .frames = {{"/home/a/train.py", 8, "train"}}}};
    process.torch = {.why = {}, .rank = number, .groups = std::move(groups)};
    return process;
}

std::vector<NodeStacks> on_nodes(std::vector<JobProcess> processes) {
    std::vector<NodeStacks> nodes{{"n1", {}}, {"n2", {}}};
    for (std::size_t i = 0; i < processes.size(); ++i)
        nodes[2 * i < processes.size() ? 0 : 1].processes.push_back(std::move(processes[i]));
    return nodes;
}

// Breaks when the rank that has missed a collective is not named, or its number is another one.
TEST(TorchCalls, NameTheRankThatIsBehind) {
    const TorchCall stands = call(3, 35);
    const TorchCall before = call(2, 40, "gloo:broadcast", "Float [10]");
    const auto nodes = on_nodes({rank(0, {in(stands)}), rank(1, {in(stands)}),
                                 rank(2, {in(stands)}), rank(3, {group({}, before)})});
    EXPECT_EQ(torch_text(nodes),
              "torch.distributed: call 3 of the default group has been open for 35 s: "
              "gloo:all_reduce of Float [4] on ranks 0-2; rank 3 has not made it, and last made "
              "call 2, gloo:broadcast of Float [10]\n"
              "torch.distributed: ranks 0-2 wait for rank 3, which waits in no collective\n");
    EXPECT_EQ(rank_awaited_by_torch(nodes), 3);
    const auto found = suspect(nodes, stack_groups(nodes));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->rank, 3);
    EXPECT_EQ(found->node, "n2");
    EXPECT_EQ(found->where, "at train.py:8 in train()");
    // Breaks when a rank of another step, as of a notebook, is named in its place.
    auto with_other_step = nodes;
    JobProcess other = rank(3, {group({}, before)});
    other.step = "5";
    auto& first = with_other_step[0].processes;
    first.insert(first.begin(), other);
    const auto same = suspect(with_other_step, stack_groups(with_other_step));
    ASSERT_TRUE(same);
    EXPECT_EQ(same->node, "n2");
}

// Breaks when a call that has just been made, or one that is over, is said to be open.
TEST(TorchCalls, SayNothingOfAJobThatGoesOn) {
    EXPECT_EQ(torch_text(on_nodes({rank(0, {}), rank(1, {})})), "");
    EXPECT_EQ(torch_text(on_nodes({rank(0, {in(call(3, 1))}), rank(1, {group({}, call(2, 9))})})),
              "");
}

// Breaks when ranks that make different calls are taken for ranks that meet.
TEST(TorchCalls, NameThoseThatMakeAnotherCall) {
    const auto other = in(call(5, 30, "gloo:broadcast", "Float [10]"));
    const auto nodes = on_nodes({rank(0, {in(call(5, 31))}), rank(1, {in(call(5, 30))}),
                                 rank(2, {in(call(5, 30))}), rank(3, {other})});
    EXPECT_EQ(torch_text(nodes),
              "torch.distributed: call 5 of the default group has been open for 31 s: "
              "gloo:all_reduce of Float [4] on ranks 0-2, but gloo:broadcast of Float [10] on "
              "rank 3\n"
              "torch.distributed: ranks 0-3 wait for each other\n");
    EXPECT_EQ(rank_awaited_by_torch(nodes), std::nullopt);
    // Tensors of another size are another call, too.
    EXPECT_THAT(torch_text(on_nodes({rank(0, {in(call(5, 31))}),
                                     rank(1, {in(call(5, 30, "gloo:all_reduce", "Float [8]"))})})),
                HasSubstr("Float [4] on rank 0, but gloo:all_reduce of Float [8] on rank 1\n"));
}

// Breaks when a rank that itself waits in another group is blamed.
TEST(TorchCalls, FollowTheWaitsOfSeveralGroups) {
    const auto pair = [](std::vector<TorchCall> open, std::optional<TorchCall> last) {
        TorchGroup made = group(std::move(open), std::move(last), {0, 1}, "undefined");
        made.name = "1";
        return made;
    };
    // Rank 1 waits for rank 0 in the pair, and the others wait for both.
    const auto nodes =
        on_nodes({rank(0, {group({}, call(1, 50)), pair({}, std::nullopt)}),
                  rank(1, {group({}, call(1, 50)), pair({call(1, 44)}, call(1, 44))}),
                  rank(2, {in(call(2, 45))}), rank(3, {in(call(2, 45))})});
    EXPECT_EQ(torch_text(nodes),
              "torch.distributed: call 2 of the default group has been open for 45 s: "
              "gloo:all_reduce of Float [4] on ranks 2-3; ranks 0-1 have not made it, and last "
              "made call 1, gloo:all_reduce of Float [4]\n"
              "torch.distributed: call 1 of the group of ranks 0-1 has been open for 44 s: "
              "gloo:all_reduce of Float [4] on rank 1; rank 0 has not made it, nor any before\n"
              "torch.distributed: ranks 1-3 wait for rank 0, which waits in no collective\n");
    EXPECT_EQ(rank_awaited_by_torch(nodes), 0);
}

// Breaks when a rank is blamed that waits for one that tells nothing, or that has no process.
TEST(TorchCalls, WaitForThoseThatTellNothing) {
    TorchGroup pair = group({call(1, 44)}, call(1, 44), {2, 3}, "undefined");
    pair.name = "1";
    const auto of_three = [&](JobProcess last) {
        return on_nodes({rank(0, {in(call(2, 45))}), rank(1, {in(call(2, 45))}),
                         rank(2, {group({}, call(1, 50)), pair}), std::move(last)});
    };
    JobProcess silent = rank(3, {});
    silent.torch = {.why = "it does not answer", .rank = {}, .groups = {}};
    EXPECT_THAT(torch_text(of_three(silent)), HasSubstr("ranks 0-2 wait for rank 3, which tells "
                                                        "nothing\n"));
    EXPECT_EQ(rank_awaited_by_torch(of_three(silent)), std::nullopt);
    // Its Python ignores the hook, or it has left all groups.
    silent.torch = std::nullopt;
    EXPECT_THAT(torch_text(of_three(silent)), HasSubstr("for rank 3, which tells nothing\n"));
    // A process of another step is none of the ranks.
    silent.step = "2";
    EXPECT_THAT(torch_text(of_three(silent)),
                HasSubstr("ranks 0-2 wait for rank 3, of which no process was found\n"));
    EXPECT_EQ(rank_awaited_by_torch(of_three(silent)), std::nullopt);
    // It tells of one group, and not of the other.
    const auto half = of_three(rank(3, {group({}, call(1, 50))}));
    EXPECT_THAT(torch_text(half), HasSubstr("ranks 0-2 wait for rank 3, which tells nothing\n"));
    EXPECT_EQ(rank_awaited_by_torch(half), std::nullopt);
}

// Breaks when the groups of two programs in one step are taken for one.
TEST(TorchCalls, AreNotMixedWithThoseOfAnotherProgram) {
    const auto of = [](int process, int number, TorchGroup told) {
        JobProcess made = rank(number, {std::move(told)});
        made.process = process;
        return made;
    };
    const TorchGroup waits = group({call(2, 40)}, call(2, 40), {0, 1});
    const TorchGroup late = group({}, call(1, 50), {0, 1});
    const auto nodes =
        on_nodes({of(100, 0, waits), of(101, 1, waits), of(200, 0, late), of(201, 1, late)});
    EXPECT_EQ(torch_text(nodes), "");
    EXPECT_EQ(rank_awaited_by_torch(nodes), std::nullopt);
    // What can be told apart is shown, but nobody is blamed for it.
    const auto other = on_nodes({of(100, 0, waits), of(101, 1, late), of(200, 0, waits),
                                 of(102, 2, group({call(7, 30)}, call(7, 30), {2, 3}))});
    EXPECT_THAT(torch_text(other), testing::StartsWith("torch.distributed: call 7 of "));
    EXPECT_THAT(torch_text(other), testing::Not(HasSubstr("wait")));
    EXPECT_EQ(rank_awaited_by_torch(other), std::nullopt);
}

// NCCL queues calls: the one that is open is the first of them. Its records tell more.
TEST(TorchCalls, AreThoseOfNccl) {
    TorchCall begun = call(7, 60, "nccl:all_reduce");
    begun.state = "started";
    TorchGroup queued = group({begun, call(8, 60), call(9, 59)}, call(9, 59), {0, 1}, "dp");
    TorchGroup behind = group({}, call(6, 61, "nccl:all_gather"), {0, 1}, "dp");
    queued.backend = behind.backend = "nccl";
    EXPECT_EQ(torch_text(on_nodes({rank(0, {queued}), rank(1, {behind})})),
              "torch.distributed: call 7 of the group \"dp\" of ranks 0-1 has been open for 60 s: "
              "nccl:all_reduce of Float [4] on rank 0, begun on rank 0; rank 1 has not made it, "
              "and last made call 6, nccl:all_gather of Float [4]\n"
              "torch.distributed: rank 0 waits for rank 1, which waits for nobody\n");
}

// Breaks when a call is taken for another one because it has not begun everywhere, or because each
// rank brings as much as it has.
TEST(TorchCalls, AreTheSameWhereSomethingElseDiffers) {
    TorchCall begun = call(7, 60, "nccl:all_reduce");
    begun.state = "started";
    EXPECT_THAT(
        torch_text(on_nodes({rank(0, {in(begun)}), rank(1, {in(call(7, 60, begun.operation))}),
                             rank(2, {group({}, call(6, 61))})})),
        HasSubstr(": nccl:all_reduce of Float [4] on ranks 0-1, begun on rank 0; rank 2 has"));
    for (const char* operation : {"gloo:scatter", "nccl:gather", "nccl:all_to_allv"}) {
        EXPECT_THAT(
            torch_text(on_nodes({rank(0, {in(call(7, 60, operation, "Float [8]"))}),
                                 rank(1, {in(call(7, 60, operation, "Float [2]"))}),
                                 rank(2, {group({}, call(6, 61))})})),
            HasSubstr(fmt::format(": {} on ranks 0-1; rank 2 has not made it, ", operation)));
    }
}

// Breaks when a rank that waits for a message is said to wait for nobody, or its peer is not the
// one that the group has under that number.
TEST(TorchCalls, NameMessagesOfTwoRanks) {
    const auto of_nccl = [](int number, std::vector<TorchCall> open) {
        TorchGroup made = group(std::move(open), {}, {0, 2, 4}, "undefined");
        made.backend = "nccl";
        return rank(number, {made});
    };
    const auto message = [](std::string operation) {
        TorchCall made = call(1, 20, std::move(operation));
        made.point_to_point = true;
        return made;
    };
    const auto lines_of = [&](const std::string& of_rank_2, std::vector<TorchCall> of_rank_4) {
        return on_nodes(
            {of_nccl(0, {}), of_nccl(2, {message(of_rank_2)}), of_nccl(4, std::move(of_rank_4))});
    };
    const auto received = lines_of("nccl:recv 1<-0", {});
    EXPECT_EQ(torch_text(received),
              "torch.distributed: nccl:recv 1<-0 of Float [4] has been open for 20 s on rank 2\n"
              "torch.distributed: rank 2 waits for rank 0, which waits for nobody\n");
    EXPECT_EQ(rank_awaited_by_torch(received), 0);
    EXPECT_EQ(rank_awaited_by_torch(lines_of("nccl:send 1->2", {})), 4);
    EXPECT_EQ(rank_awaited_by_torch(lines_of("nccl:send 1->2", {message("nccl:recv 2<-0")})), 0);
    EXPECT_THAT(torch_text(lines_of("nccl:recv 1<-2", {message("nccl:recv 2<-1")})),
                HasSubstr("ranks 2, 4 wait for each other\n"));
    // In several messages together, or in those of another form, nobody is named.
    for (const char* operation : {"nccl:coalesced", "nccl:recv 1<-9", "nccl:recv 0<-1", "recv 1"}) {
        const auto nodes = lines_of(operation, {});
        EXPECT_THAT(torch_text(nodes), HasSubstr("rank 2 waits for a rank that cannot be told\n"));
        EXPECT_EQ(rank_awaited_by_torch(nodes), std::nullopt);
    }
}

TEST(TorchCalls, SayWhoDoesNotTell) {
    JobProcess silent = rank(1, {});
    silent.torch = {.why = "it does not answer", .rank = {}, .groups = {}};
    EXPECT_EQ(torch_text(on_nodes({rank(0, {}), silent})),
              "torch.distributed: rank 1 tells nothing of its calls, because it does not answer\n");
}

TEST(NcclText, IsOfTheNodeThatWasAsked) {
    EXPECT_EQ(nccl_text({{"n1", {}}}), "");
    EXPECT_EQ(nccl_text({{"n1", {}}, {"n2", {}, {"Job summary", "", "  Nodes"}}}),
              "\nNCCL, asked on n2:\n    Job summary\n\n      Nodes\n");
}

}  // namespace
}  // namespace batchai::visit

// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/link_check.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::run {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Nodes n0, n1, …, whose links carry `rate` megabytes per second, as a function of both ends.
template <typename Rate>
std::vector<LinksOfNode> nodes_with(int count, const Rate& rate) {
    std::vector<LinksOfNode> nodes;
    for (int node = 0; node < count; ++node) {
        record::LinkReport report;
        for (int peer = 0; peer < count; ++peer) {
            if (peer == node) continue;
            report.links += fmt::format("{}{} {}000000 25000", report.links.empty() ? "" : " ",
                                        peer, rate(std::min(node, peer), std::max(node, peer)));
        }
        nodes.push_back({"n" + std::to_string(node), report});
    }
    return nodes;
}

TEST(LinkVerdict, SaysHowFastTheLinksAre) {
    const LinkVerdict verdict =
        verdict_on(nodes_with(4, [](int a, int b) { return 1000 + 10 * (a + b); }));
    EXPECT_THAT(verdict.remarks, IsEmpty());
    EXPECT_EQ(verdict.fault, "");
    EXPECT_EQ(verdict.summary,
              "6 links between 4 nodes carry 1.0 GB/s each way (1.0 GB/s to 1.1 GB/s), with 25 us");
}

TEST(LinkVerdict, NamesASlowNodeOnce) {
    EXPECT_THAT(verdict_on(nodes_with(5, [](int a, int b) { return a == 3 || b == 3 ? 90 : 1200; }))
                    .remarks,
                ElementsAre("n3: its links carry 90 MB/s, and the usual link 1.2 GB/s"));
    EXPECT_THAT(verdict_on(nodes_with(3, [](int a, int b) { return a == 0 || b == 0 ? 90 : 1200; }))
                    .remarks,
                ElementsAre("n0: its links carry 90 MB/s, and the usual link 1.2 GB/s"));
}

TEST(LinkVerdict, NamesASlowLink) {
    EXPECT_THAT(
        verdict_on(nodes_with(4, [](int a, int b) { return a == 1 && b == 2 ? 90 : 1200; }))
            .remarks,
        ElementsAre("the link between n1 and n2 carries 90 MB/s, and the usual link 1.2 GB/s"));
    // Of one link, nobody knows.
    EXPECT_THAT(verdict_on(nodes_with(2, [](int, int) { return 1; })).remarks, IsEmpty());
}

TEST(LinkVerdict, NamesBothEndsOfAFault) {
    auto nodes = nodes_with(4, [](int, int) { return 1000; });
    nodes[1].report->fault = "the data of rank 2 was wrong";
    nodes[1].report->peer = "2";
    LinkVerdict verdict = verdict_on(nodes);
    EXPECT_EQ(verdict.fault, "n1 with n2: the data of rank 2 was wrong");
    EXPECT_EQ(verdict.bad_node, "");
    nodes[3].report->fault = "the data of rank 2 was wrong";
    nodes[3].report->peer = "2";
    verdict = verdict_on(nodes);
    EXPECT_EQ(verdict.bad_node, "n2");
}

// Breaks when the node at one end of a broken link is blamed for what others miss of it later.
TEST(LinkVerdict, PassesOverFaultsThatFollowFromAnother) {
    auto nodes = nodes_with(4, [](int, int) { return 1000; });
    const auto lose = [&](int node, const char* peer, const char* round) {
        nodes[static_cast<std::size_t>(node)].report->fault = "no data";
        nodes[static_cast<std::size_t>(node)].report->peer = peer;
        nodes[static_cast<std::size_t>(node)].report->lost_in_round = round;
    };
    lose(0, "2", "2");
    lose(1, "2", "1");
    lose(2, "1", "1");
    lose(3, "2", "2");
    const LinkVerdict verdict = verdict_on(nodes);
    EXPECT_EQ(verdict.fault, "n1 with n2: no data");
    EXPECT_EQ(verdict.bad_node, "");
}

TEST(LinkVerdict, BelievesNoReportThatCannotBe) {
    const LinkVerdict verdict = verdict_on(
        {{"n0",
          record::LinkReport{
              .fault = {}, .peer = "9", .lost_in_round = {}, .links = "0 1 1 7 1 1 1 x 1 1 -5 1"}},
         {"n1", std::nullopt}});
    EXPECT_EQ(verdict.summary, "");
    EXPECT_THAT(verdict.remarks,
                ElementsAre("the links of 1 of 2 nodes were not checked; n1: it has not reported"));
}

// Breaks when ranks that cannot meet at all are taken for a bad link, which the wire-up check
// explains.
TEST(LinkVerdict, LeavesToOthersWhatIsNoFaultOfALink) {
    auto nodes = nodes_with(3, [](int, int) { return 1000; });
    nodes[1].report = record::LinkReport{
        .fault = "PMIx does not answer", .peer = {}, .lost_in_round = {}, .links = {}};
    nodes[2].report.reset();
    const LinkVerdict verdict = verdict_on(nodes);
    EXPECT_EQ(verdict.fault, "");
    EXPECT_THAT(
        verdict.remarks,
        ElementsAre("the links of 2 of 3 nodes were not checked; n1: PMIx does not answer"));
}

}  // namespace
}  // namespace batchai::run

// SPDX-License-Identifier: Apache-2.0
#include "liveness/finding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using mpi_bridge::Finding;
using mpi_bridge::findings_text;
using mpi_bridge::Seconds;
using testing::HasSubstr;
using Verdict = Finding::Verdict;

Finding silent(char state) {
    Finding found;
    found.rank = 3;
    found.identity = {.host = "n2", .process = 411, .start = 1};
    found.waited = Seconds(60);
    found.verdict = Verdict::silent;
    found.state = state;
    return found;
}

std::string text_of(const Finding& found) {
    return findings_text(0, {&found, 1});
}

TEST(Finding, NamesAStoppedRankAndHowToLetItGoOn) {
    EXPECT_EQ(text_of(silent('T')),
              "mpi_bridge: rank 0: a call has waited for 60 s for rank 3 (host n2, process 411), "
              "which has been stopped by a signal; \"kill -CONT 411\" on its host lets it go on\n");
}

TEST(Finding, SaysHowLongASystemCallHasLasted) {
    Finding found = silent('D');
    found.state_for = Seconds(25);
    EXPECT_THAT(text_of(found), HasSubstr("in a system call that cannot be interrupted for at "
                                          "least 25 s"));
}

TEST(Finding, TellsASilentProcessFromASilentHost) {
    EXPECT_THAT(text_of(silent('S')), HasSubstr("does not answer, although its process is there"));
    EXPECT_THAT(text_of(silent(mpi_bridge::process_state::ended)), HasSubstr("has ended"));
    EXPECT_THAT(text_of(silent(mpi_bridge::process_state::unknown)), HasSubstr("its host down"));
    Finding found = silent(mpi_bridge::process_state::unknown);
    found.silent_neighbour = 2;
    EXPECT_THAT(text_of(found), HasSubstr("neither does rank 2 of the same host"));
}

TEST(Finding, SaysThatASlowRankRuns) {
    Finding found = silent('S');
    found.verdict = Verdict::absent;
    EXPECT_THAT(text_of(found), HasSubstr("which runs, but has not come to this call"));
    found.verdict = Verdict::waits;
    found.waits_for = 5;
    EXPECT_THAT(text_of(found), HasSubstr("which waits for rank 5 itself"));
}

TEST(Finding, CountsWhatWouldBeTooMuch) {
    const std::vector<Finding> many(40, silent('T'));
    const std::string text = findings_text(0, many);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 11);
    EXPECT_THAT(text, HasSubstr("calls wait for 30 more ranks"));
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
#include "trace/stall.hpp"

#include <array>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpi_bridge {
namespace {

using testing::HasSubstr;
using Verdict = StallWatch::Verdict;

std::vector<std::uint64_t> bits(std::initializer_list<unsigned> ranks) {
    std::vector<std::uint64_t> words;
    for (const unsigned rank : ranks) {
        words.resize(std::max<std::size_t>(words.size(), rank / 64 + 1));
        words[rank / 64] |= std::uint64_t{1} << (rank % 64);
    }
    return words;
}

Environment environment_of(std::map<std::string, std::string> variables) {
    return [variables](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    };
}

TEST(RankRanges, JoinNeighbours) {
    EXPECT_EQ(rank_ranges(bits({})), "");
    EXPECT_EQ(rank_ranges(bits({0})), "0");
    EXPECT_EQ(rank_ranges(bits({3, 5, 6, 7})), "3, 5-7");
    EXPECT_EQ(rank_ranges(bits({62, 63, 64, 65, 127, 128})), "62-65, 127-128");
}

TEST(RankRanges, OfAllRanksAreOne) {
    const std::array<std::uint64_t, 2> all{~std::uint64_t{0}, ~std::uint64_t{0}};
    EXPECT_EQ(rank_ranges(all), "0-127");
}

TEST(RankRanges, CountWhatDoesNotFit) {
    std::vector<std::uint64_t> every_other(4, 0x5555555555555555U);
    EXPECT_EQ(rank_ranges(every_other, 10), "0, 2, 4, 6 and 124 more");
}

TEST(StallReport, NamesTensorsSizesAndMissingRanks) {
    const auto first = bits({3, 5, 6, 7});
    const auto second = bits({3});
    const std::vector<Pending> pending{
        {"grad/layer2", MPIB_ALLREDUCE, 1024, Seconds(61), MPIB_WORLD, second},
        {"grad/layer1", MPIB_ALLREDUCE, 4 << 20, Seconds(75.2), MPIB_WORLD, first}};
    EXPECT_EQ(
        stall_report(0, pending),
        "mpi_bridge: rank 0: 2 operations have waited for 75 s: \"grad/layer1\" (allreduce, 4.0 "
        "MiB): missing on ranks 3, 5-7; \"grad/layer2\" (allreduce, 1.0 KiB): missing on "
        "rank 3");
}

TEST(StallReport, SaysWhatItDoesNotKnow) {
    const std::vector<Pending> pending{{"x", MPIB_BROADCAST, 8, Seconds(60), 2, {}}};
    EXPECT_EQ(
        stall_report(1, pending),
        "mpi_bridge: rank 1: 1 operation has waited for 60 s: \"x\" (broadcast, 8 bytes, process "
        "set 2): not yet on all ranks");
}

TEST(StallReport, OfNothingIsEmpty) {
    EXPECT_EQ(stall_report(0, {}), "");
}

TEST(StallReport, IsBoundedWhateverIsPending) {
    const std::string name(10000, 'n');
    std::vector<std::uint64_t> missing(200, 0x5555555555555555U);
    const std::vector<Pending> pending(
        1000, Pending{name, MPIB_ALLREDUCE, 1, Seconds(60), MPIB_WORLD, missing});
    for (const std::size_t longest : {0U, 256U, 257U, 1000U, 2000U}) {
        const std::string report = stall_report(7, pending, longest);
        EXPECT_LE(report.size(), std::max<std::size_t>(longest, 256)) << longest;
        EXPECT_THAT(report, HasSubstr("1000 operations have waited"));
        EXPECT_THAT(report, HasSubstr(" more"));
    }
}

TEST(StallReport, KeepsToOneLine) {
    const std::vector<Pending> pending{{"a\nb", MPIB_ALLREDUCE, 1, Seconds(60), MPIB_WORLD, {}}};
    EXPECT_THAT(stall_report(0, pending), testing::Not(HasSubstr("\n")));
}

TEST(StallWatch, ReportsWhenTheTimeHasComeAndNotAgainAtOnce) {
    StallWatch watch({Seconds(60), Seconds(0)});
    const auto start = Clock::now();
    const auto after = [start](int seconds) { return start + std::chrono::seconds(seconds); };
    EXPECT_EQ(watch.look(Seconds(0), start), Verdict::quiet);
    EXPECT_EQ(watch.look(Seconds(59.9), after(59)), Verdict::quiet);
    EXPECT_EQ(watch.look(Seconds(60), after(60)), Verdict::report);
    EXPECT_EQ(watch.look(Seconds(61), after(61)), Verdict::quiet);
    EXPECT_EQ(watch.look(Seconds(119), after(119)), Verdict::quiet);
    EXPECT_EQ(watch.look(Seconds(120), after(120)), Verdict::report);
}

TEST(StallWatch, ReportsMoreAndMoreSeldomWhatGoesOnWaiting) {
    StallWatch watch({Seconds(60), Seconds(0)});
    const auto start = Clock::now();
    std::vector<int> reports;
    for (int second = 0; second <= 1500; ++second) {
        if (watch.look(Seconds(second), start + std::chrono::seconds(second)) == Verdict::report)
            reports.push_back(second);
    }
    EXPECT_THAT(reports, testing::ElementsAre(60, 120, 240, 480, 960, 1440));
}

TEST(StallWatch, BeginsAnewWithSomethingElseThatWaits) {
    StallWatch watch({Seconds(60), Seconds(0)});
    const auto start = Clock::now();
    const auto after = [start](int seconds) { return start + std::chrono::seconds(seconds); };
    for (const int second : {60, 120, 240})
        EXPECT_EQ(watch.look(Seconds(second), after(second)), Verdict::report);
    // What waited until now has ended at 250 s; the next has waited since 255 s.
    EXPECT_EQ(watch.look(Seconds(0), after(255)), Verdict::quiet);
    EXPECT_EQ(watch.look(Seconds(59), after(314)), Verdict::quiet);
    EXPECT_EQ(watch.look(Seconds(60), after(315)), Verdict::report);
    EXPECT_EQ(watch.look(Seconds(120), after(375)), Verdict::report);
}

TEST(StallWatch, ShutsDownAfterItsOwnTime) {
    StallWatch watch({Seconds(10), Seconds(15)});
    const auto now = Clock::now();
    EXPECT_EQ(watch.look(Seconds(10), now), Verdict::report);
    EXPECT_EQ(watch.look(Seconds(15), now), Verdict::shut_down);
    StallWatch silent({Seconds(0), Seconds(15)});
    EXPECT_EQ(silent.look(Seconds(14), now), Verdict::quiet);
    EXPECT_EQ(silent.look(Seconds(15), now), Verdict::shut_down);
}

TEST(StallWatch, KeepsQuietForEverWhenTurnedOff) {
    StallWatch watch({Seconds(0), Seconds(0)});
    EXPECT_EQ(watch.look(Seconds(1e9), Clock::now()), Verdict::quiet);
    EXPECT_FALSE(watch.next_look(Seconds(1e9), Clock::now()));
}

TEST(StallWatch, SaysWhenToLookAgain) {
    StallWatch watch({Seconds(60), Seconds(100)});
    const auto now = Clock::now();
    EXPECT_DOUBLE_EQ(watch.next_look(Seconds(20), now)->count(), 40);
    EXPECT_EQ(watch.look(Seconds(60), now), Verdict::report);
    // The shutdown comes before the next report.
    EXPECT_DOUBLE_EQ(watch.next_look(Seconds(60), now)->count(), 40);
    EXPECT_DOUBLE_EQ(watch.next_look(Seconds(200), now)->count(), 0);
}

TEST(StallSettings, HaveDefaults) {
    const auto settings = stall_settings(environment_of({}));
    ASSERT_TRUE(settings);
    EXPECT_EQ(settings->report, Seconds(60));
    EXPECT_EQ(settings->shut_down, Seconds(0));
}

TEST(StallSettings, PreferTheirOwnNames) {
    const auto settings =
        stall_settings(environment_of({{"MPI_BRIDGE_STALL_SECONDS", "0.5"},
                                       {"HOROVOD_STALL_CHECK_TIME_SECONDS", "30"},
                                       {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "90"}}));
    ASSERT_TRUE(settings);
    EXPECT_EQ(settings->report, Seconds(0.5));
    EXPECT_EQ(settings->shut_down, Seconds(90));
}

TEST(StallSettings, TakeZeroForNever) {
    const auto settings = stall_settings(environment_of({{"MPI_BRIDGE_STALL_SECONDS", "0"}}));
    ASSERT_TRUE(settings);
    EXPECT_EQ(settings->report, Seconds(0));
}

TEST(StallSettings, LetHorovodsSwitchTurnOffWhatHorovodsNamesSet) {
    const auto off = stall_settings(environment_of({{"HOROVOD_STALL_CHECK_DISABLE", "1"},
                                                    {"HOROVOD_STALL_CHECK_TIME_SECONDS", "30"},
                                                    {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "9"}}));
    ASSERT_TRUE(off);
    EXPECT_EQ(off->report, Seconds(0));
    EXPECT_EQ(off->shut_down, Seconds(0));
    const auto own = stall_settings(
        environment_of({{"HOROVOD_STALL_CHECK_DISABLE", "1"}, {"MPI_BRIDGE_STALL_SECONDS", "5"}}));
    ASSERT_TRUE(own);
    EXPECT_EQ(own->report, Seconds(5));
    const auto on = stall_settings(environment_of({{"HOROVOD_STALL_CHECK_DISABLE", "0"}}));
    ASSERT_TRUE(on);
    EXPECT_EQ(on->report, Seconds(60));
}

TEST(StallSettings, RefuseWhatIsNoNumberOfSeconds) {
    for (const char* name : {"MPI_BRIDGE_STALL_SECONDS", "MPI_BRIDGE_STALL_SHUTDOWN_SECONDS"}) {
        for (const char* value : {"-1", "soon", "60s", "nan"}) {
            const auto settings = stall_settings(environment_of({{name, value}}));
            ASSERT_FALSE(settings) << name << value;
            EXPECT_EQ(settings.error().status, MPIB_ERROR_INVALID_ARGUMENT);
            EXPECT_THAT(settings.error().text, HasSubstr(std::string(name) + "=\"" + value + '"'));
        }
    }
}

}  // namespace
}  // namespace mpi_bridge

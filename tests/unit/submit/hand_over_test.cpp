// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/hand_over.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/timestamp.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"
#include "store/store.hpp"
#include "tests/unit/base/scratch.hpp"

namespace batchai::submit {
namespace {

using std::chrono::hours;

constexpr hours day{24};

class HandOver : public ::testing::Test {
  protected:
    // A job that began that long ago, and perhaps has ended.
    void add(const std::string& uuid, hours start, std::optional<hours> end) {
        record::Attempt attempt;
        attempt.slurm_job_id = "7";
        attempt.start = base::now() - start;
        if (end) {
            attempt.end = base::now() - *end;
            attempt.exit_code = 0;
        }
        const record::JobFiles files(handed_over_directory(store_, uuid));
        std::filesystem::create_directories(files.attempts());
        std::ofstream(files.attempt(1)) << to_json(attempt);
        // Nothing has changed there since.
        std::filesystem::last_write_time(
            files.directory(), std::filesystem::file_time_type::clock::now() - end.value_or(start));
    }
    [[nodiscard]] bool is_needed(const std::string& uuid) const {
        const auto needed = needed_hand_overs(store_).value();
        return std::find(needed.begin(), needed.end(), handed_over_directory(store_, uuid)) !=
               needed.end();
    }
    [[nodiscard]] bool exists(const std::string& uuid) const {
        return std::filesystem::exists(handed_over_directory(store_, uuid));
    }

    Scratch scratch_;
    store::Store store_{scratch_.path()};
};

TEST_F(HandOver, IsKeptWhileTheJobRunsAndForAWeekAfterItsEnd) {
    add("runs", 40 * day, std::nullopt);
    add("ended", 9 * day, 6 * day);
    add("long-ended", 9 * day, 8 * day);
    EXPECT_TRUE(is_needed("runs"));
    EXPECT_FALSE(is_needed("ended"));
    prune_handed_over(store_);
    EXPECT_TRUE(exists("runs"));
    EXPECT_TRUE(exists("ended"));
    EXPECT_FALSE(exists("long-ended"));
}

// Breaks when the plan, and the image that it names, of a job that was killed is kept for ever.
TEST_F(HandOver, IsNotKeptForEverWithoutARecordedEnd) {
    add("killed", 370 * day, std::nullopt);
    EXPECT_FALSE(is_needed("killed"));
    prune_handed_over(store_);
    EXPECT_FALSE(exists("killed"));
}

}  // namespace
}  // namespace batchai::submit

// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/reservation.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.hpp"
#include "temporary_store.hpp"

namespace batchai::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ReservationTest : public TemporaryStore {
  protected:
    void SetUp() override {
        TemporaryStore::SetUp();
        create_parents();
    }
    const ExperimentKey experiment_{"g", "w", "e"};
    const JobKey key_{"g", "w", "e", "j"};
};

TEST_F(ReservationTest, AReservedJobIsNotVisibleUntilItIsCommitted) {
    auto reserved = store_.reserve(key_);
    ASSERT_TRUE(reserved) << reserved.error().text();
    EXPECT_EQ(reserved->files().directory(), store_.job_files(key_).directory());
    EXPECT_TRUE(fs::is_directory(reserved->files().attempts()));
    EXPECT_TRUE(store_.jobs(experiment_).value().empty());
    const auto names = store_.job_names(experiment_).value();
    EXPECT_FALSE(store_.job(key_));
    ASSERT_TRUE(reserved->commit(job("j")));
    EXPECT_EQ(store_.jobs(experiment_).value().at(0).slurm_job_id, "12");
    EXPECT_EQ(names, store_.job_names(experiment_).value());
    EXPECT_EQ(store_.jobs(experiment_, names).value().size(), 1U);
    EXPECT_EQ(store_.job(key_).value().properties, job("j").properties);
    struct stat status {};
    ASSERT_EQ(stat(store_.job_files(key_).directory().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0700U);
}

TEST_F(ReservationTest, AReservationThatIsNotCommittedLeavesNothing) {
    {
        auto reserved = store_.reserve(key_);
        ASSERT_TRUE(reserved);
        write(reserved->files().plan(), "{}");
        const JobReservation moved = std::move(*reserved);
    }
    EXPECT_FALSE(fs::exists(store_.job_files(key_).directory()));
    EXPECT_TRUE(fs::is_empty(store_.home() / ".trash"));
    EXPECT_TRUE(store_.reserve(key_));
}

TEST_F(ReservationTest, ALivingReservationIsNotTaken) {
    const auto first = store_.reserve(key_);
    ASSERT_TRUE(first);
    const auto second = store_.reserve(key_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().exit_code, base::ExitCode::refused);
    EXPECT_THAT(second.error().what, HasSubstr("is being created"));
    EXPECT_TRUE(fs::exists(first->files().directory()));
}

TEST_F(ReservationTest, ACommittedJobIsNotTakenAndStaysAfterItsReservation) {
    {
        auto reserved = store_.reserve(key_);
        ASSERT_TRUE(reserved->commit(job("j")));
        EXPECT_FALSE(reserved->commit(job("j")));
    }
    EXPECT_TRUE(store_.job(key_));
    EXPECT_THAT(store_.reserve(key_).error().what, HasSubstr("exists already"));
    ASSERT_TRUE(store_.remove(key_));
    EXPECT_TRUE(store_.reserve(key_));
}

TEST_F(ReservationTest, TheReservationOfADeadProcessIsReclaimed) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto reserved = store_.reserve(key_);
        write(store_.job_files(key_).plan(), "left over");
        _exit(reserved ? 0 : 1);  // without the destructor, as a crash
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    ASSERT_TRUE(fs::exists(store_.job_files(key_).plan()));
    const auto reserved = store_.reserve(key_);
    ASSERT_TRUE(reserved) << reserved.error().text();
    EXPECT_FALSE(fs::exists(store_.job_files(key_).plan()));
}

TEST_F(ReservationTest, OfManyProcessesThatTakeAnAbandonedNameExactlyOneWins) {
    for (int round = 0; round < 5; ++round) {
        const JobKey key{"g", "w", "e", "j" + std::to_string(round)};
        {
            const pid_t crash = fork();
            ASSERT_GE(crash, 0);
            if (crash == 0) _exit(store_.reserve(key).has_value() ? (pause(), 0) : 1);
            while (!fs::exists(store_.job_files(key).directory()))
                usleep(1000);
            kill(crash, SIGKILL);
            waitpid(crash, nullptr, 0);
        }
        // The children win or lose while all of them live; the pipe ends when the test says so.
        std::array<int, 2> hold{};
        ASSERT_EQ(pipe(hold.data()), 0);
        std::array<int, 2> result{};
        ASSERT_EQ(pipe(result.data()), 0);
        std::vector<pid_t> children;
        for (int i = 0; i < 6; ++i) {
            const pid_t child = fork();
            ASSERT_GE(child, 0);
            if (child == 0) {
                close(hold[1]);
                const auto reserved = store_.reserve(key);
                const char won = reserved ? '1' : '0';
                char ignored = 0;
                if (::write(result[1], &won, 1) == 1 && read(hold[0], &ignored, 1) < 0) _exit(1);
                _exit(0);
            }
            children.push_back(child);
        }
        int winners = 0;
        for (std::size_t i = 0; i < children.size(); ++i) {
            char won = 0;
            ASSERT_EQ(read(result[0], &won, 1), 1);
            winners += won == '1' ? 1 : 0;
        }
        for (const int end : {hold[0], hold[1], result[0], result[1]})
            close(end);
        for (const pid_t child : children)
            waitpid(child, nullptr, 0);
        EXPECT_EQ(winners, 1);
    }
}

TEST(Marker, OneFromElsewhereIsAbandonedAfterAnHour) {
    const auto now = fs::file_time_type::clock::now();
    const std::string elsewhere = "another-boot pid:[1] 1 1";
    EXPECT_FALSE(is_abandoned(elsewhere, now));
    EXPECT_TRUE(is_abandoned(elsewhere, now - std::chrono::hours(2)));
    EXPECT_FALSE(is_abandoned("", now));
    EXPECT_FALSE(is_abandoned(marker_text(), now - std::chrono::hours(2)));
}

TEST(Marker, AProcessNumberThatWasGivenAgainIsAbandoned) {
    base::Holder other = base::Holder::self();
    other.start_time += '9';
    EXPECT_TRUE(is_abandoned(other.text(), fs::file_time_type::clock::now()));
}

}  // namespace
}  // namespace batchai::store

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
    // Nothing is left elsewhere.
    base::Result<JobReservation> reserve(const JobKey& key) {
        return store_.reserve(
            key, [](const record::JobFiles& /*files*/) { return base::Result<void>(); });
    }
    // Reserves the name in a process that is then killed.
    void leave_reserved(const JobKey& key) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) _exit(reserve(key) ? 0 : 1);  // without the destructor, as a crash
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_EQ(status, 0);
    }
    const ExperimentKey experiment_{"g", "w", "e"};
    const JobKey key_{"g", "w", "e", "j"};
};

TEST_F(ReservationTest, AReservedJobIsNotVisibleUntilItIsCommitted) {
    auto reserved = reserve(key_);
    ASSERT_TRUE(reserved) << reserved.error().text();
    EXPECT_EQ(reserved->files().directory(), store_.job_files(key_).directory());
    EXPECT_TRUE(fs::is_directory(reserved->files().attempts()));
    EXPECT_TRUE(store_.list<Job>(experiment_).value().empty());
    const auto names = store_.job_names(experiment_).value();
    EXPECT_FALSE(store_.get<Job>(key_));
    ASSERT_TRUE(reserved->commit(job("j")));
    EXPECT_EQ(store_.list<Job>(experiment_).value().at(0).slurm_job_id, "12");
    EXPECT_EQ(names, store_.job_names(experiment_).value());
    EXPECT_EQ(store_.jobs(experiment_, names).value().size(), 1U);
    EXPECT_EQ(store_.get<Job>(key_).value().properties, job("j").properties);
    struct stat status {};
    ASSERT_EQ(stat(store_.job_files(key_).directory().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0700U);
}

TEST_F(ReservationTest, AReservationThatIsNotCommittedLeavesNothing) {
    {
        auto reserved = reserve(key_);
        ASSERT_TRUE(reserved);
        write(reserved->files().plan(), "{}");
        const JobReservation moved = std::move(*reserved);
    }
    EXPECT_FALSE(fs::exists(store_.job_files(key_).directory()));
    EXPECT_TRUE(fs::is_empty(store_.home() / ".trash"));
    EXPECT_TRUE(reserve(key_));
}

TEST_F(ReservationTest, ALivingReservationIsNotTaken) {
    const auto first = reserve(key_);
    ASSERT_TRUE(first);
    const auto second = reserve(key_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().exit_code, base::ExitCode::refused);
    EXPECT_THAT(second.error().what, HasSubstr("is being created"));
    EXPECT_TRUE(fs::exists(first->files().directory()));
}

TEST_F(ReservationTest, ACommittedJobIsNotTakenAndStaysAfterItsReservation) {
    {
        auto reserved = reserve(key_);
        ASSERT_TRUE(reserved->commit(job("j")));
        EXPECT_FALSE(reserved->commit(job("j")));
    }
    EXPECT_TRUE(store_.get<Job>(key_));
    EXPECT_THAT(reserve(key_).error().what, HasSubstr("exists already"));
    ASSERT_TRUE(store_.remove<Job>(key_));
    EXPECT_TRUE(reserve(key_));
}

TEST_F(ReservationTest, TheReservationOfADeadProcessIsReclaimed) {
    leave_reserved(key_);
    write(store_.job_files(key_).plan(), "left over");
    EXPECT_THAT(store_.get<Job>(key_).error().what, HasSubstr("was not finished"));
    EXPECT_EQ(store_.get<Job>(key_).error().exit_code, base::ExitCode::not_found);
    EXPECT_THAT(store_.abandoned_names(experiment_, {"j", "other"}), testing::ElementsAre("j"));
    const auto reserved = reserve(key_);
    ASSERT_TRUE(reserved) << reserved.error().text();
    EXPECT_FALSE(fs::exists(store_.job_files(key_).plan()));
    EXPECT_THAT(store_.abandoned_names(experiment_, {"j"}), testing::IsEmpty());
}

TEST_F(ReservationTest, ADirectoryStaysWhileWhatItsProcessHasLeftIsNotEnded) {
    leave_reserved(key_);
    write(store_.job_files(key_).plan(), "left over");
    const auto refuse = [](const record::JobFiles& files) -> base::Result<void> {
        return base::fail("a job runs from here", files.directory().string(), {},
                          base::ExitCode::refused);
    };
    EXPECT_THAT(store_.reserve(key_, refuse).error().what, HasSubstr("a job runs from here"));
    EXPECT_FALSE(store_.free_name(key_, refuse));
    EXPECT_TRUE(fs::exists(store_.job_files(key_).plan()));
    EXPECT_TRUE(
        store_
            .free_name(key_, [](const record::JobFiles& /*files*/) { return base::Result<void>(); })
            .value());
    EXPECT_FALSE(fs::exists(store_.job_files(key_).directory()));
    EXPECT_THAT(store_.get<Job>(key_).error().what, HasSubstr("there is no job"));
}

TEST_F(ReservationTest, WhatAnAbandonedProcessHasLeftIsEndedByOneClaimant) {
    leave_reserved(key_);
    int ended = 0;
    const auto end = [&](const record::JobFiles& /*files*/) -> base::Result<void> {
        ++ended;
        // Another process that wants the name while this one asks Slurm.
        EXPECT_FALSE(store_
                         .free_name(key_,
                                    [&](const record::JobFiles& /*files*/) {
                                        ++ended;
                                        return base::Result<void>();
                                    })
                         .value());
        return {};
    };
    EXPECT_TRUE(store_.free_name(key_, end).value());
    EXPECT_EQ(ended, 1);
}

TEST_F(ReservationTest, ALivingReservationOfAnotherHostIsNamedAndTakenAfterMinutes) {
    leave_reserved(key_);
    const fs::path directory = store_.job_files(key_).directory();
    fs::path marker;
    for (const auto& entry : fs::directory_iterator(directory)) {
        if (entry.path().filename().string().starts_with(".reserved.")) marker = entry.path();
    }
    write(marker, "another-boot pid:[1] 4242 1 login2 token\n");
    const auto refused = reserve(key_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().exit_code, base::ExitCode::refused);
    EXPECT_THAT(refused.error().what, HasSubstr("process 4242 on login2"));
    EXPECT_THAT(refused.error().hint, HasSubstr("the name is free again in 5 min"));
    EXPECT_THAT(store_.abandoned_names(experiment_, {"j"}), testing::IsEmpty());
    fs::last_write_time(marker, fs::last_write_time(marker) - std::chrono::minutes(6));
    EXPECT_TRUE(reserve(key_));
}

TEST_F(ReservationTest, AProcessWhoseReservationWasTakenLearnsIt) {
    auto slow = reserve(key_);
    ASSERT_TRUE(slow);
    for (const auto& entry : fs::directory_iterator(store_.job_files(key_).directory())) {
        if (entry.path().filename().string().starts_with(".reserved.")) fs::remove(entry.path());
    }
    EXPECT_THAT(slow->commit(job("j")).error().what, HasSubstr("was lost"));
    EXPECT_FALSE(store_.get<Job>(key_));
}

TEST_F(ReservationTest, OfManyProcessesThatTakeAnAbandonedNameExactlyOneWins) {
    for (int round = 0; round < 5; ++round) {
        const JobKey key{"g", "w", "e", "j" + std::to_string(round)};
        {
            const pid_t crash = fork();
            ASSERT_GE(crash, 0);
            if (crash == 0) _exit(reserve(key).has_value() ? (pause(), 0) : 1);
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
                const auto reserved = reserve(key);
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

TEST(Marker, OneFromElsewhereIsAbandonedAfterMinutesOfSilence) {
    using std::chrono::minutes;
    const std::string elsewhere = "another-boot pid:[1] 1 1";
    EXPECT_FALSE(is_abandoned(elsewhere, minutes(4)));
    EXPECT_TRUE(is_abandoned(elsewhere, minutes(6)));
    EXPECT_FALSE(is_abandoned("", minutes(0)));
    EXPECT_FALSE(is_abandoned(marker_text(), std::chrono::hours(2)));
}

TEST(Marker, AProcessNumberThatWasGivenAgainIsAbandoned) {
    base::Holder other = base::Holder::self();
    other.start_time += '9';
    EXPECT_TRUE(is_abandoned(other.text(), std::chrono::seconds(0)));
}

TEST(Marker, OneFromBeforeARestartOfThisHostIsAbandoned) {
    base::Holder other = base::Holder::self();
    other.boot = "another-boot";
    EXPECT_TRUE(is_abandoned(other.text(), std::chrono::minutes(3)));
    EXPECT_FALSE(is_abandoned(other.text(), std::chrono::seconds(30)))
        << "another machine may have the same name";
    other.host += "-2";
    EXPECT_FALSE(is_abandoned(other.text(), std::chrono::minutes(3)));
}

}  // namespace
}  // namespace batchai::store

// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/requeue_delay.hpp"

#include <gtest/gtest.h>

namespace batchai::slurm {
namespace {

using namespace std::chrono_literals;

Configuration of(const std::string& version, const std::string& authentication,
                 const std::string& scheduler) {
    return {{"SLURM_VERSION", version},
            {"AuthInfo", authentication},
            {"SchedulerParameters", scheduler}};
}

TEST(RequeueDelay, IsTwoMinutesUnlessTheSiteSaysOtherwise) {
    EXPECT_EQ(requeue_delay({}), 120s);
    EXPECT_EQ(requeue_delay(of("22.05.8", "(null)", "(null)")), 120s);
    EXPECT_EQ(requeue_delay(of("26.05.5", "(null)", "bf_interval=2")), 120s);
    EXPECT_EQ(requeue_delay(of("22.05.8", "cred_expire=30", "(null)")), 30s);
    EXPECT_EQ(requeue_delay(of("22.05.8", "socket=/run/munge,cred_expire=300", "(null)")), 300s);
}

// Breaks when a setting counts that the release does not know.
TEST(RequeueDelay, HasASettingOfItsOwnFrom2511On) {
    const auto delay = [](const std::string& version) {
        return requeue_delay(of(version, "cred_expire=30", "bf_interval=2,requeue_delay=5"));
    };
    EXPECT_EQ(delay("22.05.8"), 30s);
    EXPECT_EQ(delay("25.05.3"), 30s);
    EXPECT_EQ(delay("25.11.0"), 5s);
    EXPECT_EQ(delay("25.11.0rc1"), 5s);
    EXPECT_EQ(delay("26.05.5"), 5s);
    EXPECT_EQ(requeue_delay(of("26.05.5", "cred_expire=30", "bf_interval=2")), 30s);
    EXPECT_EQ(requeue_delay(of("26.05.5", "", "Requeue_Delay=0")), 0s);
}

TEST(RequeueDelay, IsReadAsSlurmReadsIt) {
    EXPECT_EQ(requeue_delay(of("22.05.8", "cred_expire=4", "")), 120s);
    EXPECT_EQ(requeue_delay(of("22.05.8", "cred_expire=5", "")), 5s);
    EXPECT_EQ(requeue_delay(of("22.05.8", "cred_expire=soon", "")), 120s);
    EXPECT_EQ(requeue_delay(of("26.05.5", "", "requeue_delay=7s")), 7s);
}

TEST(RequeueDelay, IsMadeShorterByWhatTheReleaseHas) {
    EXPECT_EQ(setting_of_requeue_delay(of("22.05.8", "", "")).key, "AuthInfo");
    EXPECT_EQ(setting_of_requeue_delay(of("25.11.2", "", "")).key, "SchedulerParameters");
}

}  // namespace
}  // namespace batchai::slurm

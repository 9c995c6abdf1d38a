// SPDX-License-Identifier: Apache-2.0
#include "core/descriptor_limit.hpp"

#include <algorithm>
#include <cerrno>

#include <gmock/gmock.h>
#include <sys/resource.h>

namespace {

using mpi_bridge::about_descriptor_limit;
using mpi_bridge::raise_descriptor_limit;
using testing::HasSubstr;

// Sets the soft limit for as long as this object lives.
class SoftLimit {
  public:
    explicit SoftLimit(rlim_t most) {
        EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
        rlimit now = before_;
        now.rlim_cur = most;
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
    }
    ~SoftLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
    SoftLimit(const SoftLimit&) = delete;
    SoftLimit& operator=(const SoftLimit&) = delete;

    [[nodiscard]] rlim_t hard() const { return before_.rlim_max; }

  private:
    rlimit before_{};
};

rlim_t soft_limit() {
    rlimit now{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
    return now.rlim_cur;
}

TEST(DescriptorLimit, IsRaisedForARankThatMayNeedMore) {
    const SoftLimit limit(300);
    raise_descriptor_limit(4);
    EXPECT_EQ(soft_limit(), 300U);
    raise_descriptor_limit(100);
    EXPECT_EQ(soft_limit(), 456U);
}

TEST(DescriptorLimit, StaysWhereItIsHigherOrUsualInASmallJob) {
    const SoftLimit limit(1024);
    raise_descriptor_limit(384);
    EXPECT_EQ(soft_limit(), 1024U);
}

TEST(DescriptorLimit, IsNeverRaisedAboveTheHardOne) {
    const SoftLimit limit(300);
    raise_descriptor_limit(2'000'000'000);
    EXPECT_EQ(soft_limit(), std::min<rlim_t>(limit.hard(), 4'000'000'256U));
}

TEST(DescriptorLimit, IsNamedWhereItIsReached) {
    const SoftLimit limit(300);
    EXPECT_THAT(about_descriptor_limit(EMFILE), HasSubstr("300 open files"));
    EXPECT_EQ(about_descriptor_limit(ECONNREFUSED), "");
}

}  // namespace

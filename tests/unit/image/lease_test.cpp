// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/lease.hpp"

#include <chrono>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/lock.hpp"
#include "scratch.hpp"

namespace batchai::image {
namespace {

constexpr const char* elsewhere = "another-boot pid:[1] 1 1 elsewhere token\n";

TEST(Lease, OnlyOneHasItAndGivesItBack) {
    const Scratch scratch;
    const std::string lock = scratch / "x.lock";
    LeaseSeeker first(lock);
    LeaseSeeker second(lock);
    {
        const auto held = first.attempt().value();
        ASSERT_TRUE(held);
        EXPECT_FALSE(second.attempt().value());
        EXPECT_EQ(second.holder().process, getpid());
        EXPECT_EQ(second.holder(), base::Holder::parse(base::read_file(lock).value()));
        EXPECT_FALSE(is_abandoned(lock));
    }
    EXPECT_FALSE(std::filesystem::exists(lock));
    EXPECT_TRUE(second.attempt().value());
}

TEST(Lease, OfADeadProcessOfThisHostIsLostAtOnce) {
    const Scratch scratch;
    base::Holder dead = base::Holder::self();
    dead.process = fork();
    if (dead.process == 0) _exit(0);
    waitpid(dead.process, nullptr, 0);
    const std::string lock = scratch.write("x.lock", dead.text());
    EXPECT_TRUE(is_abandoned(lock));
    LeaseSeeker seeker(lock);
    EXPECT_FALSE(seeker.attempt().value());
    EXPECT_TRUE(seeker.attempt().value());
}

TEST(Lease, OfAnotherHostIsLostWhenNobodyTouchesIt) {
    const Scratch scratch;
    const std::string lock = scratch.write("x.lock", elsewhere);
    EXPECT_FALSE(is_abandoned(lock));
    LeaseSeeker seeker(lock, std::chrono::seconds(60));
    const auto start = std::chrono::steady_clock::now();
    const auto after = [&](int seconds) { return start + std::chrono::seconds(seconds); };
    EXPECT_FALSE(seeker.attempt(after(0)).value());
    EXPECT_FALSE(seeker.attempt(after(50)).value());
    // Touched: the waiting begins again.
    const auto touched = std::filesystem::last_write_time(lock) + std::chrono::seconds(1);
    std::filesystem::last_write_time(lock, touched);
    EXPECT_FALSE(seeker.attempt(after(55)).value());
    EXPECT_FALSE(seeker.attempt(after(114)).value());
    EXPECT_TRUE(std::filesystem::exists(lock));
    EXPECT_FALSE(seeker.attempt(after(116)).value());
    EXPECT_TRUE(seeker.attempt(after(116)).value());
}

TEST(Lease, OfAnEarlierVersionIsLostWhenNobodyTouchesIt) {
    const Scratch scratch;
    const std::string lock = scratch.write("x.lock", "host 1 token\n");
    LeaseSeeker seeker(lock, std::chrono::seconds(60));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(seeker.attempt(start).value());
    EXPECT_FALSE(seeker.attempt(start + std::chrono::seconds(61)).value());
    EXPECT_TRUE(seeker.attempt(start + std::chrono::seconds(61)).value());
}

TEST(Lease, ThatAnotherTookOverIsNotGivenBackByTheFirst) {
    const Scratch scratch;
    const std::string lock = scratch / "x.lock";
    {
        const auto held = LeaseSeeker(lock).attempt().value();
        ASSERT_TRUE(held);
        scratch.write("x.lock", elsewhere);
    }
    EXPECT_TRUE(std::filesystem::exists(lock));
}

}  // namespace
}  // namespace batchai::image

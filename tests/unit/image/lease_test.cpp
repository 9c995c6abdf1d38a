// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/lease.hpp"

#include <array>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scratch.hpp"

namespace batchai::image {
namespace {

std::string host() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
}

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
        EXPECT_EQ(second.holder().host, host());
        EXPECT_FALSE(is_abandoned(lock));
    }
    EXPECT_FALSE(std::filesystem::exists(lock));
    EXPECT_TRUE(second.attempt().value());
}

TEST(Lease, OfADeadProcessOfThisHostIsLostAtOnce) {
    const Scratch scratch;
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    const std::string lock =
        scratch.write("x.lock", host() + " " + std::to_string(child) + " token\n");
    EXPECT_TRUE(is_abandoned(lock));
    LeaseSeeker seeker(lock);
    EXPECT_FALSE(seeker.attempt().value());
    EXPECT_TRUE(seeker.attempt().value());
}

TEST(Lease, OfAnotherHostIsLostWhenNobodyTouchesIt) {
    const Scratch scratch;
    const std::string lock = scratch.write("x.lock", "elsewhere 1 token\n");
    EXPECT_FALSE(is_abandoned(lock));
    LeaseSeeker seeker(lock, std::chrono::milliseconds(200));
    EXPECT_FALSE(seeker.attempt().value());
    // Touched: the waiting begins again.
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    std::filesystem::last_write_time(lock, std::filesystem::file_time_type::clock::now());
    EXPECT_FALSE(seeker.attempt().value());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(seeker.attempt().value());
    EXPECT_TRUE(std::filesystem::exists(lock));
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    EXPECT_FALSE(seeker.attempt().value());
    EXPECT_TRUE(seeker.attempt().value());
}

TEST(Lease, ThatAnotherTookOverIsNotGivenBackByTheFirst) {
    const Scratch scratch;
    const std::string lock = scratch / "x.lock";
    {
        const auto held = LeaseSeeker(lock).attempt().value();
        ASSERT_TRUE(held);
        scratch.write("x.lock", "elsewhere 1 token\n");
    }
    EXPECT_TRUE(std::filesystem::exists(lock));
}

}  // namespace
}  // namespace batchai::image

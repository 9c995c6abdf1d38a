// SPDX-License-Identifier: Apache-2.0
#include "shm/segment.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranks.hpp"
#include "shm/node_stage.hpp"

namespace {

using mpi_bridge::Segment;
using mpi_bridge_test::Group;
using mpi_bridge_test::in_child;
using mpi_bridge_test::segments_of;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t bytes = 1UL << 20;

TEST(Segment, IsTheSameMemoryForWhoAttaches) {
    auto segment = Segment::create(bytes);
    ASSERT_TRUE(segment) << segment.error().text;
    ASSERT_TRUE((*segment)->reserve(0, bytes, "a test"));
    std::byte& cell = (*segment)->memory()[bytes - 1];
    const auto answer = in_child([&]() -> std::string {
        auto attached = Segment::attach((*segment)->ticket());
        if (!attached) return attached.error().text;
        (*attached)->memory()[bytes - 1] = std::byte{7};
        return {};
    });
    EXPECT_EQ(answer, "");
    EXPECT_EQ(cell, std::byte{7});
}

TEST(Segment, BelongsToItsUserAlone) {
    const auto segment = Segment::create(bytes);
    ASSERT_TRUE(segment);
    const auto names = segments_of(::getpid());
    ASSERT_THAT(names, SizeIs(1));
    struct stat status {};
    ASSERT_EQ(::stat(names[0].c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(Segment, LeavesNoNameBehind) {
    {
        const auto unlinked = Segment::create(bytes);
        ASSERT_TRUE(unlinked);
        (*unlinked)->unlink();
        EXPECT_THAT(segments_of(::getpid()), IsEmpty());
        EXPECT_FALSE(Segment::attach((*unlinked)->ticket()));
        const auto forgotten = Segment::create(bytes);
        ASSERT_TRUE(forgotten);
        EXPECT_THAT(segments_of(::getpid()), SizeIs(1));
    }
    EXPECT_THAT(segments_of(::getpid()), IsEmpty());
}

TEST(Segment, IsNotTakenForAnother) {
    const auto segment = Segment::create(bytes);
    ASSERT_TRUE(segment);
    auto other_nonce = (*segment)->ticket();
    other_nonce.nonce[3] ^= 1U;
    EXPECT_THAT(Segment::attach(other_nonce).error().text, HasSubstr("nonce"));
    auto other_length = (*segment)->ticket();
    other_length.bytes *= 2;
    EXPECT_THAT(Segment::attach(other_length).error().text, HasSubstr("bytes"));
    auto other_name = (*segment)->ticket();
    other_name.name[12] ^= 1;
    EXPECT_THAT(Segment::attach(other_name).error().text, HasSubstr("cannot attach"));
}

TEST(Segment, TellsWhetherAProcessLives) {
    const auto segment = Segment::create(bytes);
    ASSERT_TRUE(segment);
    ASSERT_TRUE((*segment)->lock(5));
    const auto answer = in_child([&]() -> std::string {
        if (!(*segment)->is_locked_by_another(5)) return "the parent is said to be dead";
        if ((*segment)->is_locked_by_another(6)) return "nobody is said to live";
        auto locked = (*segment)->lock(7);
        return locked ? "" : locked.error().text;
    });
    EXPECT_EQ(answer, "");
    EXPECT_FALSE((*segment)->is_locked_by_another(7)) << "the child is dead";
}

TEST(Segment, FailsBeyondTheLimitOfFileSizes) {
    const auto answer = in_child([]() -> std::string {
        const rlimit limit{bytes / 2, bytes / 2};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        const auto segment = Segment::create(bytes);
        return segment ? "was made" : segment.error().text;
    });
    EXPECT_THAT(answer, HasSubstr("ulimit -f"));
}

// In a child that sees a /dev/shm of its own, of 256 KiB.
std::string in_small_shared_memory(const std::function<std::string()>& body) {
    return in_child([&]() -> std::string {
        const uid_t user = ::getuid();
        const gid_t group = ::getgid();
        if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return "not permitted";
        std::ofstream("/proc/self/setgroups") << "deny";
        std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
        std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
        if (::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=256k") != 0) return "not permitted";
        return body();
    });
}

TEST(Segment, FailsInFullSharedMemoryInsteadOfCrashing) {
    const auto answer = in_small_shared_memory([]() -> std::string {
        constexpr std::uint64_t little = 100UL << 10;
        auto segment = Segment::create(little);
        if (!segment) return segment.error().text;
        std::ofstream("/dev/shm/of_the_program") << std::string(200UL << 10, 'x');
        const auto reserved = (*segment)->reserve(0, little, "a test");
        return reserved ? "was reserved" : reserved.error().text;
    });
    if (answer == "not permitted") GTEST_SKIP() << "user namespaces are not allowed here";
    EXPECT_THAT(answer, HasSubstr("make /dev/shm larger"));
}

// Breaks when the ranks of a container fall back to sockets because its /dev/shm is small.
TEST(Segment, TakesNoneOfASmallSharedMemory) {
    const auto answer = in_small_shared_memory([]() -> std::string {
        auto segment = Segment::create(bytes);
        if (!segment) return segment.error().text;
        if (!segments_of(::getpid()).empty()) return "has a name";
        if (auto done = (*segment)->reserve(0, bytes, "a test"); !done) return done.error().text;
        if (auto done = (*segment)->lock(5); !done) return done.error().text;
        const auto other_process = in_child([&]() -> std::string {
            auto attached = Segment::attach((*segment)->ticket());
            if (!attached) return attached.error().text;
            if (!(*attached)->is_locked_by_another(5)) return "the creator is said to be dead";
            (*attached)->memory()[bytes - 1] = std::byte{7};
            return {};
        });
        if (!other_process.empty()) return other_process;
        if ((*segment)->memory()[bytes - 1] != std::byte{7}) return "is other memory";
        auto forged = (*segment)->ticket();
        forged.nonce[3] ^= 1U;
        return Segment::attach(forged) ? "is taken for another" : "";
    });
    if (answer == "not permitted") GTEST_SKIP() << "user namespaces are not allowed here";
    EXPECT_EQ(answer, "");
}

TEST(NodeStage, WorksInASmallSharedMemory) {
    const auto answer = in_small_shared_memory([]() -> std::string {
        auto options = Group::small_stage();
        options.size = 8;
        options.piece_bytes = 64UL << 10;
        const auto stage = mpi_bridge::NodeStage::create(options);
        if (!stage) return stage.error().text;
        options.rank = 7;
        const auto other = mpi_bridge::NodeStage::attach(options, (*stage)->ticket());
        return other ? "" : other.error().text;
    });
    if (answer == "not permitted") GTEST_SKIP() << "user namespaces are not allowed here";
    EXPECT_EQ(answer, "");
}

}  // namespace

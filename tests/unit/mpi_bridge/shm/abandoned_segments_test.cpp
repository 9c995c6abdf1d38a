// SPDX-License-Identifier: Apache-2.0
#include "shm/abandoned_segments.hpp"

#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.hpp"
#include "shm/segment.hpp"

namespace {

using mpi_bridge::is_abandoned;
using mpi_bridge::name_for_segment;
using mpi_bridge::Segment;
using mpi_bridge_test::segments_of;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t bytes = 1UL << 20;

// A process that has made a segment whose name is still there.
class Creator {
  public:
    Creator() {
        std::array<int, 2> ends{-1, -1};
        if (pipe(ends.data()) != 0) return;
        process_ = fork();
        if (process_ == 0) {
            alarm(60);
            const auto segment = Segment::create(bytes);
            if (segment) (void)!write(ends[1], &(*segment)->ticket(), sizeof(Segment::Ticket));
            for (;;)
                pause();
        }
        close(ends[1]);
        EXPECT_EQ(read(ends[0], &ticket_, sizeof ticket_), ssize_t{sizeof ticket_});
        close(ends[0]);
    }
    ~Creator() { die(); }
    Creator(const Creator&) = delete;
    Creator& operator=(const Creator&) = delete;

    void die() {
        if (process_ <= 0 || dead_) return;
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
        dead_ = true;
    }
    [[nodiscard]] const Segment::Ticket& ticket() const { return ticket_; }
    [[nodiscard]] std::vector<std::string> names() const { return segments_of(process_); }

  private:
    pid_t process_ = -1;
    bool dead_ = false;
    Segment::Ticket ticket_{};
};

// Breaks when a rank that is killed before all have attached leaves its memory in /dev/shm for
// good.
TEST(AbandonedSegments, AreRemovedByTheNextThatIsMade) {
    Creator creator;
    ASSERT_THAT(creator.names(), SizeIs(1));
    creator.die();
    ASSERT_THAT(creator.names(), SizeIs(1));
    ASSERT_TRUE(Segment::create(bytes));
    EXPECT_THAT(creator.names(), IsEmpty());
}

TEST(AbandonedSegments, AreRemovedByARankThatSurvives) {
    Creator creator;
    {
        const auto attached = Segment::attach(creator.ticket());
        ASSERT_TRUE(attached) << attached.error().text;
        creator.die();
        EXPECT_THAT(creator.names(), SizeIs(1));
    }
    EXPECT_THAT(creator.names(), IsEmpty());
}

TEST(AbandonedSegments, AreNotThoseOfTheLiving) {
    const Creator creator;
    {
        const auto attached = Segment::attach(creator.ticket());
        ASSERT_TRUE(attached) << attached.error().text;
        ASSERT_TRUE(Segment::create(bytes));
    }
    EXPECT_THAT(creator.names(), SizeIs(1));
    EXPECT_TRUE(Segment::attach(creator.ticket()));
}

TEST(AbandonedSegments, AreToldByTheirNames) {
    const auto own = name_for_segment({});
    EXPECT_LT(own.size(), sizeof Segment::Ticket::name);
    EXPECT_FALSE(is_abandoned(own));
    // /mpi_bridge.USER.PROCESS.START.NAMESPACE.NONCE
    std::vector<std::string> fields;
    for (std::size_t at = 1; at != 0; at = own.find('.', at) + 1)
        fields.push_back(own.substr(at, own.find('.', at) - at));
    ASSERT_THAT(fields, SizeIs(6));
    const auto with = [&](std::size_t field, const std::string& value) {
        auto changed = fields;
        changed[field] = value;
        std::string name = "/" + changed[0];
        for (std::size_t at = 1; at < changed.size(); ++at)
            name += "." + changed[at];
        return name;
    };
    EXPECT_EQ(with(1, fields[1]), own);
    EXPECT_TRUE(is_abandoned(with(2, "8388609"))) << "beyond the largest process number";
    EXPECT_TRUE(is_abandoned(with(3, "1"))) << "an earlier process of the same number";
    EXPECT_FALSE(is_abandoned(with(3, "0"))) << "nobody knows when it began";
    EXPECT_FALSE(is_abandoned(with(4, "1"))) << "another PID namespace";
    EXPECT_FALSE(is_abandoned(with(1, std::to_string(getuid() + 1)))) << "another user";
    EXPECT_FALSE(is_abandoned(with(2, "0")));
    EXPECT_FALSE(is_abandoned(with(2, "18446744073709551615")));
    EXPECT_FALSE(is_abandoned("/mpi_bridge.0.1.0123456789abcdef"));
    EXPECT_FALSE(is_abandoned("/something else"));
}

}  // namespace

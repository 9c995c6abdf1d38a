// SPDX-License-Identifier: Apache-2.0
//
// The stand-in's NCCL: what hangs with the real one must hang here, too.
#include <array>
#include <barrier>

#include <gtest/gtest.h>

#include "../device_fixture.hpp"
#include "control.hpp"
#include "gpu/nccl/communicator.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;
using namespace std::chrono_literals;

constexpr std::size_t elements = 1000;

// One rank of a communicator, with a stream of its own.
class Member {
  public:
    Member(int rank, const nccl::UniqueId& id)
        : nccl_(*must(nccl::library())),
          queue_(must(CudaQueue::open(*must(CudaDevice::get(rank))))),
          memory_(*queue_, bytes_of(std::vector<float>(elements, 1))) {
        NcclCommunicator::Options options;
        options.name = "rules";
        options.rank = rank;
        options.size = 2;
        options.id = id;
        communicator_ =
            must(NcclCommunicator::begin(nccl_, *must(CudaDevice::get(rank)), std::move(options)));
        must(communicator_->connect());
    }

    void reduce() {
        must(communicator_->call("ncclAllReduce", [&](nccl::Communicator communicator) {
            return nccl_.all_reduce(memory_.at(), memory_.at(), elements, nccl::float32, nccl::sum,
                                    communicator,
                                    static_cast<cuda::Stream>(queue_->stream().handle));
        }));
        mark_ = must(queue_->mark());
    }
    // What the other member is asked for later runs after what this one was asked for.
    void goes_before(Member& other) { must(queue_->hold(other.queue_->stream(), mark_)); }
    [[nodiscard]] bool done_within(std::chrono::milliseconds time) {
        const auto limit = std::chrono::steady_clock::now() + time;
        while (!must(queue_->reached(mark_))) {
            if (std::chrono::steady_clock::now() > limit) return false;
            std::this_thread::sleep_for(1ms);
        }
        return true;
    }
    [[nodiscard]] float value() const { return values_of<float>(memory_.content()).back(); }
    NcclCommunicator& communicator() { return *communicator_; }

  private:
    const nccl::Library& nccl_;
    std::unique_ptr<CudaQueue> queue_;
    DeviceBytes memory_;
    std::unique_ptr<NcclCommunicator> communicator_;
    WorkQueue::Mark mark_;
};

// Two ranks as threads, and two communicators.
using Members = std::array<std::unique_ptr<Member>, 2>;
void as_two_ranks(const std::function<void(int rank, Members&, std::barrier<>&)>& body) {
    must_end(60s, [&] {
        std::array<nccl::UniqueId, 2> ids{};
        for (auto& id : ids)
            ASSERT_EQ((*nccl::library())->unique_id(&id), nccl::success);
        std::barrier together(2);
        std::vector<std::thread> threads;
        for (int rank = 0; rank < 2; ++rank) {
            threads.emplace_back([&, rank] {
                Members members;
                for (std::size_t i = 0; i < 2; ++i) {
                    members[i] = std::make_unique<Member>(rank, ids[i]);
                    // Without an order the two could cross, and hang.
                    if (i > 0) members[i - 1]->goes_before(*members[i]);
                    // The first collective connects, for which both ranks must come.
                    members[i]->reduce();
                }
                body(rank, members, together);
                together.arrive_and_wait();
                for (auto& member : members)
                    member->communicator().abandon({MPIB_ERROR_INTERNAL, "the end"});
            });
        }
        for (auto& thread : threads)
            thread.join();
    });
}

TEST(NcclRules, OneOrderOnBothRanksComesToAnEnd) {
    Standin::get().configure("delay=500 devices=2");
    as_two_ranks([](int, Members& members, std::barrier<>&) {
        // Streams do not start in the order of the calls, so the order is the device's; it begins
        // with the collectives that connected, as rank 0 could else come to the next one first.
        members[1]->goes_before(*members[0]);
        members[0]->reduce();
        members[0]->goes_before(*members[1]);
        members[1]->reduce();
        for (auto& member : members) {
            EXPECT_TRUE(member->done_within(30s));
            EXPECT_EQ(member->value(), 4);
        }
    });
}

TEST(NcclRules, CrossedOrdersHangUntilTheyAreAborted) {
    Standin::get().configure("delay=0 devices=2");
    as_two_ranks([](int rank, Members& members, std::barrier<>& together) {
        for (auto& member : members)
            EXPECT_TRUE(member->done_within(30s));
        together.arrive_and_wait();
        auto& first = *members[rank == 0 ? 0 : 1];
        auto& second = *members[rank == 0 ? 1 : 0];
        first.reduce();
        // The kernel is on the device before the other one comes.
        std::this_thread::sleep_for(50ms);
        together.arrive_and_wait();
        second.reduce();
        EXPECT_FALSE(first.done_within(300ms));
        EXPECT_FALSE(second.done_within(1ms));
    });
}

TEST(NcclRules, APeerThatHasAbortedIsARemoteErrorWhereNcclNotices) {
    Standin::get().configure("delay=0 devices=2 notice=1");
    as_two_ranks([](int rank, Members& members, std::barrier<>&) {
        if (rank == 1) {
            members[0]->communicator().abandon({MPIB_ERROR_INTERNAL, "rank 1 gives up"});
            return;
        }
        Done fine;
        try {
            members[0]->reduce();
        } catch (const std::exception&) {
            return;  // noticed already
        }
        const auto limit = std::chrono::steady_clock::now() + 30s;
        while (fine && std::chrono::steady_clock::now() < limit)
            fine = members[0]->communicator().check();
        ASSERT_FALSE(fine);
        EXPECT_EQ(fine.error().status, MPIB_ERROR_PEER_LOST) << fine.error().text;
    });
}

}  // namespace

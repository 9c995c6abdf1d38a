// SPDX-License-Identifier: Apache-2.0
#include "tools/gpus/allreduce.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/deadline.hpp"
#include "gpu/cuda/queue.hpp"
#include "gpu/nccl/communicator.hpp"

namespace mpi_bridge::gpus {
namespace {

using Duration = std::chrono::duration<double>;

constexpr std::size_t elements = 8UL << 20U;
constexpr std::size_t bytes = elements * sizeof(float);
// Pinned memory is scarce, so the host sees this many elements at a time.
constexpr std::size_t seen_elements = 2UL << 20U;
// What is timed is repeated for so long, at most so many times: one allreduce among fast GPUs takes
// less time than it takes to notice its end.
constexpr Duration time_for_repeats{0.1};
constexpr int most_repeats = 50;
// All elements that are so far apart are alike.
constexpr std::size_t period = 251;
// A peer that is lost may be lost because of a failure that is told a little later.
constexpr std::chrono::milliseconds time_for_a_better_cause{200};

// What a GPU gives to the sum. Small integers have an exact sum in any order.
float part_of(std::size_t gpu, std::size_t element) {
    return static_cast<float>((element + gpu * 17) % period);
}

float sum_of(std::size_t gpus, std::size_t element) {
    float sum = 0;
    for (std::size_t gpu = 0; gpu < gpus; ++gpu)
        sum += part_of(gpu, element);
    return sum;
}

// Where the threads of the GPUs meet each other and the one that waits for all of them.
class Meeting {
  public:
    explicit Meeting(std::size_t members) : members_(members) {}

    // Waits for all others, or until one of them has failed. Returns the longest of the times that
    // they pass.
    [[nodiscard]] Outcome<Duration> meet(Duration time = {}) {
        std::unique_lock lock(mutex_);
        const int turn = turn_;
        longest_[turn % 2] = std::max(longest_[turn % 2], time);
        if (++present_ == members_) {
            present_ = 0;
            ++turn_;
            longest_[turn_ % 2] = {};
            changed_.notify_all();
        }
        changed_.wait(lock, [&] { return turn_ != turn || failure_; });
        if (failure_) return tl::unexpected<Failure>(*failure_);
        return longest_[turn % 2];
    }
    [[nodiscard]] Done fine() {
        const std::lock_guard lock(mutex_);
        if (failure_) return tl::unexpected<Failure>(*failure_);
        return {};
    }
    void fail(const Failure& failure) {
        const std::lock_guard lock(mutex_);
        const bool is_better = failure.status != MPIB_ERROR_PEER_LOST;
        if (!failure_ || (is_better && failure_->status == MPIB_ERROR_PEER_LOST))
            failure_ = failure;
        changed_.notify_all();
    }

    // For each member: has come to its end, and waits until that is known. Nobody lets go of
    // anything before, because the others would tell of that and not of what was wrong.
    void end() {
        std::unique_lock lock(mutex_);
        ++ended_;
        changed_.notify_all();
        changed_.wait(lock, [&] { return known_; });
    }
    // Waits until each member has come to its end, or one has failed.
    [[nodiscard]] Done await_end() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ended_ == members_ || failure_; });
        if (!failure_) return {};
        changed_.wait_for(lock, time_for_a_better_cause,
                          [&] { return failure_->status != MPIB_ERROR_PEER_LOST; });
        return tl::unexpected<Failure>(*failure_);
    }
    void is_known() {
        const std::lock_guard lock(mutex_);
        known_ = true;
        changed_.notify_all();
    }
    // Waits until all members have let go of NCCL: until then, freeing memory can wait for a kernel
    // that waits for another GPU.
    void let_go() {
        std::unique_lock lock(mutex_);
        ++gone_;
        changed_.notify_all();
        changed_.wait(lock, [&] { return gone_ == members_; });
    }

  private:
    const std::size_t members_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t present_ = 0;
    int turn_ = 0;
    Duration longest_[2] = {};
    std::optional<Failure> failure_;
    std::size_t ended_ = 0;
    bool known_ = false;
    std::size_t gone_ = 0;
};

// One GPU's part in it, on a thread of its own.
class Member {
  public:
    Member(const nccl::Library& nccl, Meeting& meeting, std::size_t gpu, std::size_t gpus)
        : nccl_(nccl), meeting_(meeting), gpu_(gpu), gpus_(gpus) {}

    [[nodiscard]] Done reduce(const nccl::UniqueId& id, const AllreduceNews& news) {
        CudaDevice& device = *TRY(CudaDevice::get(static_cast<int>(gpu_)));
        queue_ = TRY(CudaQueue::open(device));
        seen_ = TRY(queue_->host_memory(seen_elements * sizeof(float)));
        parts_ = TRY(queue_->tensor_memory(bytes));
        sums_ = TRY(queue_->tensor_memory(bytes));
        const auto fill = [this](std::size_t at, std::size_t count) -> Done {
            for (std::size_t i = 0; i < count; ++i)
                seen()[i] = part_of(gpu_, at + i);
            TRY(queue_->copy(parts_.get() + at * sizeof(float), seen_.get(),
                             count * sizeof(float)));
            return finish();
        };
        TRY(piece_by_piece(fill));

        stage(news, "connecting the GPUs");
        NcclCommunicator::Options options;
        options.name = "the allreduce over NCCL";
        options.rank = static_cast<int>(gpu_);
        options.size = static_cast<int>(gpus_);
        options.id = id;
        options.watch = [this] { return meeting_.fine(); };
        communicator_ = TRY(NcclCommunicator::begin(nccl_, device, std::move(options)));
        TRY(communicator_->connect());
        stage(news, "its first allreduce");
        TRY(allreduces(1));
        stage(news, "its further allreduces");
        const Duration one = TRY(allreduces(1));
        const int repeats = static_cast<int>(
            std::clamp<double>(time_for_repeats / std::max(one, Duration(1e-9)), 1, most_repeats));
        time_ = TRY(allreduces(repeats)) / repeats;

        // Nothing of what the others have left may pass for a sum.
        TRY(queue_->copy(sums_.get(), parts_.get(), bytes));
        TRY(allreduces(1));
        TRY(compare());
        return {};
    }

    // Lets go of NCCL in the order that Meeting describes.
    void end() {
        meeting_.end();
        if (communicator_) communicator_->abandon({MPIB_ERROR_NOT_INITIALIZED, "the end"});
        meeting_.let_go();
        communicator_.reset();
    }

    [[nodiscard]] Duration time() const { return time_; }  // of one allreduce
    [[nodiscard]] bool has_wrong_sums() const { return wrong_; }

  private:
    // The first GPU speaks for all.
    void stage(const AllreduceNews& news, std::string_view what) const {
        if (gpu_ == 0) news.stage(what);
    }

    [[nodiscard]] float* seen() const {
        return static_cast<float*>(static_cast<void*>(seen_.get()));
    }

    // Calls body(first element, how many) for all elements.
    template <typename Body>
    [[nodiscard]] Done piece_by_piece(const Body& body) {
        for (std::size_t at = 0; at < elements; at += seen_elements)
            TRY(body(at, std::min(seen_elements, elements - at)));
        return {};
    }

    // Returns the time on the GPU for which it takes longest.
    [[nodiscard]] Outcome<Duration> allreduces(int count) {
        TRY(meeting_.meet());
        const auto begin = Clock::now();
        for (int i = 0; i < count; ++i)
            TRY(communicator_->call("ncclAllReduce", [this](nccl::Communicator handle) {
                return nccl_.all_reduce(parts_.get(), sums_.get(), elements, nccl::float32,
                                        nccl::sum, handle,
                                        static_cast<cuda::Stream>(queue_->stream().handle));
            }));
        TRY(finish());
        return meeting_.meet(Clock::now() - begin);
    }

    [[nodiscard]] Done compare() {
        std::vector<float> expected(period);
        for (std::size_t i = 0; i < period; ++i)
            expected[i] = sum_of(gpus_, i);
        return piece_by_piece([&](std::size_t at, std::size_t count) -> Done {
            std::fill_n(seen(), count, -1.0F);
            TRY(queue_->copy(seen_.get(), sums_.get() + at * sizeof(float), count * sizeof(float)));
            TRY(finish());
            for (std::size_t i = 0; i < count; ++i)
                wrong_ = wrong_ || seen()[i] != expected[(at + i) % period];
            return {};
        });
    }

    // Waits until the device has done everything.
    [[nodiscard]] Done finish() {
        const auto mark = TRY(queue_->mark());
        while (!TRY(queue_->reached(mark))) {
            TRY(meeting_.fine());
            if (communicator_) TRY(communicator_->check());
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        return {};
    }

    const nccl::Library& nccl_;
    Meeting& meeting_;
    std::size_t gpu_;
    std::size_t gpus_;
    Duration time_{};
    bool wrong_ = false;
    std::unique_ptr<CudaQueue> queue_;
    Memory seen_;
    Memory parts_;
    Memory sums_;
    std::unique_ptr<NcclCommunicator> communicator_;
};

using Members = std::vector<std::unique_ptr<Member>>;

// All members have come to their end.
Outcome<double> speed_of(const Members& members, const std::vector<Gpu>& gpus) {
    std::string wrong;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        if (members[i]->has_wrong_sums()) wrong += (wrong.empty() ? "" : ", ") + gpus[i].name();
    }
    // NCCL passes sums on from GPU to GPU, so the one that is broken need not be the only one here.
    if (!wrong.empty())
        return fail(MPIB_ERROR_INTERNAL, "wrong sums of an allreduce over NCCL on " + wrong);
    const auto count = static_cast<double>(gpus.size());
    return 2 * (count - 1) / count * static_cast<double>(bytes) / members[0]->time().count();
}

}  // namespace

Outcome<double> allreduce_over_nccl(const nccl::Library& nccl, const std::vector<Gpu>& gpus,
                                    const AllreduceNews& news) {
    nccl::UniqueId id{};
    if (const auto made = nccl.unique_id(&id); made != nccl::success) {
        Outcome<double> outcome =
            fail(MPIB_ERROR_INTERNAL, "ncclGetUniqueId failed: " + nccl.describe(made, nullptr));
        news.outcome(outcome);
        return outcome;
    }
    Meeting meeting(gpus.size());
    Members members;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        Member& member =
            *members.emplace_back(std::make_unique<Member>(nccl, meeting, i, gpus.size()));
        threads.emplace_back([&meeting, &id, &news, &member, &gpu = gpus[i]] {
            if (const auto done = member.reduce(id, news); !done)
                meeting.fail({done.error().status, gpu.name() + ": " + done.error().text});
            member.end();
        });
    }
    const auto ended = meeting.await_end();
    auto outcome = ended ? speed_of(members, gpus) : Outcome<double>(tl::unexpected(ended.error()));
    news.outcome(outcome);
    meeting.is_known();
    for (std::thread& thread : threads)
        thread.join();
    return outcome;
}

}  // namespace mpi_bridge::gpus

// SPDX-License-Identifier: Apache-2.0
#include "tools/gpus/allreduce.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "gpu/cuda_queue.hpp"
#include "gpu/nccl_communicator.hpp"

namespace mpi_bridge::gpus {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t elements = 4UL << 20U;
constexpr std::size_t bytes = elements * sizeof(float);
// The first one makes the connections, and is not timed.
constexpr int rounds = 6;
// All elements that are so far apart are alike.
constexpr std::size_t period = 251;

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

// Where the threads of the GPUs meet. The first failure ends it for all.
class Meeting {
  public:
    explicit Meeting(std::size_t members) : members_(members) {}

    // Waits for all others.
    [[nodiscard]] Done meet() {
        std::unique_lock lock(mutex_);
        const int turn = turn_;
        if (++present_ == members_) {
            present_ = 0;
            ++turn_;
            changed_.notify_all();
        }
        changed_.wait(lock, [&] { return turn_ != turn || failure_; });
        return fine(lock);
    }
    [[nodiscard]] Done fine() {
        const std::unique_lock lock(mutex_);
        return fine(lock);
    }
    void fail(Failure failure) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::move(failure);
        changed_.notify_all();
    }

  private:
    [[nodiscard]] Done fine(const std::unique_lock<std::mutex>& /*held*/) const {
        if (!failure_) return {};
        return tl::unexpected<Failure>(*failure_);
    }

    const std::size_t members_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t present_ = 0;
    int turn_ = 0;
    std::optional<Failure> failure_;
};

// One GPU's part in it, on a thread of its own.
class Member {
  public:
    Member(const nccl::Library& nccl, Meeting& meeting, std::size_t gpu, std::size_t gpus)
        : nccl_(nccl), meeting_(meeting), gpu_(gpu), gpus_(gpus) {}

    [[nodiscard]] Done run(const nccl::UniqueId& id) {
        CudaDevice& device = *TRY(CudaDevice::get(static_cast<int>(gpu_)));
        queue_ = TRY(CudaQueue::open(device));
        const Memory host = TRY(queue_->host_memory(bytes));
        const Memory parts = TRY(queue_->tensor_memory(bytes));
        const Memory sums = TRY(queue_->tensor_memory(bytes));
        const std::span<float> values(static_cast<float*>(static_cast<void*>(host.get())),
                                      elements);
        for (std::size_t i = 0; i < elements; ++i)
            values[i] = part_of(gpu_, i);
        TRY(queue_->copy(parts.get(), host.get(), bytes));
        TRY(finish());

        NcclCommunicator::Options options;
        options.name = "the allreduce over NCCL";
        options.rank = static_cast<int>(gpu_);
        options.size = static_cast<int>(gpus_);
        options.id = id;
        options.watch = [this] { return meeting_.fine(); };
        // It must be gone before the memory is freed, for which CUDA waits for NCCL's kernels.
        const auto communicator = TRY(NcclCommunicator::begin(nccl_, device, std::move(options)));
        TRY(communicator->connect());
        for (int round = 0; round < rounds; ++round) {
            TRY(meeting_.meet());
            const auto begin = Clock::now();
            TRY(communicator->call("ncclAllReduce", [&](nccl::Communicator handle) {
                return nccl_.all_reduce(parts.get(), sums.get(), elements, nccl::float32, nccl::sum,
                                        handle, static_cast<cuda::Stream>(queue_->stream().handle));
            }));
            TRY(finish(communicator.get()));
            times_.emplace_back(Clock::now() - begin);
        }

        std::fill(values.begin(), values.end(), 0.0F);
        TRY(queue_->copy(host.get(), sums.get(), bytes));
        TRY(finish());
        std::vector<float> expected(period);
        for (std::size_t i = 0; i < period; ++i)
            expected[i] = sum_of(gpus_, i);
        for (std::size_t i = 0; i < elements; ++i) {
            if (values[i] != expected[i % period])
                return fail(MPIB_ERROR_INTERNAL, "its sum of an allreduce over NCCL is wrong");
        }
        // Nobody closes a connection that another one still uses.
        return meeting_.meet();
    }

    // Of each round.
    [[nodiscard]] const std::vector<std::chrono::duration<double>>& times() const { return times_; }

  private:
    // Waits until the device has done everything.
    [[nodiscard]] Done finish(NcclCommunicator* communicator = nullptr) {
        const auto mark = TRY(queue_->mark());
        while (!TRY(queue_->reached(mark))) {
            TRY(meeting_.fine());
            if (communicator != nullptr) TRY(communicator->check());
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        return {};
    }

    const nccl::Library& nccl_;
    Meeting& meeting_;
    std::size_t gpu_;
    std::size_t gpus_;
    std::vector<std::chrono::duration<double>> times_;
    std::unique_ptr<CudaQueue> queue_;
};

}  // namespace

Outcome<double> allreduce_over_nccl(const nccl::Library& nccl, const std::vector<Gpu>& gpus) {
    nccl::UniqueId id{};
    if (const auto made = nccl.unique_id(&id); made != nccl::success)
        return fail(MPIB_ERROR_INTERNAL, "ncclGetUniqueId failed: " + nccl.describe(made, nullptr));
    Meeting meeting(gpus.size());
    std::vector<std::unique_ptr<Member>> members;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        Member& member =
            *members.emplace_back(std::make_unique<Member>(nccl, meeting, i, gpus.size()));
        threads.emplace_back([&meeting, &id, &member, &gpu = gpus[i]] {
            if (auto done = member.run(id); !done)
                meeting.fail({done.error().status, gpu.name() + ": " + done.error().text});
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    TRY(meeting.fine());
    // A round takes as long as on the slowest GPU.
    std::chrono::duration<double> fastest = std::chrono::hours(1);
    for (std::size_t round = 1; round < rounds; ++round) {
        std::chrono::duration<double> slowest{};
        for (const auto& member : members)
            slowest = std::max(slowest, member->times()[round]);
        fastest = std::min(fastest, slowest);
    }
    const auto count = static_cast<double>(gpus.size());
    return 2 * (count - 1) / count * static_cast<double>(bytes) / fastest.count();
}

}  // namespace mpi_bridge::gpus

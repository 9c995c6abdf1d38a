// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device.hpp"
#include "gpu/nccl/library.hpp"
#include "nccl_segment.hpp"
#include "plan.hpp"

namespace standin {

namespace nccl = mpi_bridge::nccl;

constexpr nccl::Result unhandled_cuda_error = static_cast<nccl::Result>(1);
constexpr nccl::Result invalid_argument = static_cast<nccl::Result>(4);
constexpr nccl::Result invalid_usage = static_cast<nccl::Result>(5);

enum class Kind { all_reduce, reduce, reduce_scatter, broadcast, all_gather, send, recv };

// One collective, or one side of a message.
struct Operation {
    Kind kind = Kind::all_reduce;
    const void* send = nullptr;
    void* recv = nullptr;
    std::size_t count = 0;
    int type = 0;
    int op = 0;
    int peer = 0;  // or the root
    std::optional<std::array<std::byte, 8>> factor;
    Stream* stream = nullptr;
};

}  // namespace standin

namespace mpi_bridge::nccl {

// One rank of a communicator. Only one thread at a time may call NCCL about it, but for abort().
struct CommunicatorRecord {
    CommunicatorRecord(standin::Device& its_device, int its_rank, int its_size, bool its_blocking)
        : device(its_device), rank(its_rank), size(its_size), blocking(its_blocking) {}

    standin::Device& device;
    const int rank;
    const int size;
    const bool blocking;

    // Makes the contact among all ranks, in the background unless the communicator blocks.
    Result connect(const std::string& path, standin::Plan::Fate fate);
    // Enqueues the operations as one kernel each for collectives, and one for all messages.
    Result enqueue(std::vector<standin::Operation> operations, standin::Plan::Fate fate);
    Result finalize(standin::Plan::Fate fate);
    // The state of what goes on in the background, which ends here once it is done.
    Result state();
    // Whether a call may be made now: nothing is in progress and nothing has failed.
    [[nodiscard]] Result ready();

    // Ends kernels and background jobs; reclaim() must follow, and waits for the device.
    void stop();
    void reclaim(bool in_good_order);

    // Operations with a factor, from 5 on.
    std::map<int, std::array<std::byte, 8>> factors;
    int next_factor = 5;

  private:
    using Job = std::function<Result()>;
    // `stream`: the one that the job puts its work into.
    Result in_background(standin::Plan::Fate fate, Job job, standin::Stream* stream = nullptr);
    Result join_ranks(const std::string& path);
    Result meet_hosts();
    void run_kernel(const std::vector<standin::Operation>& operations);
    void collective(const standin::Operation& operation);
    void messages(const std::vector<standin::Operation>& operations);
    void alone(const standin::Operation& operation);
    void meet(const standin::Deed& deed);
    // Waits for what peers do. Throws Stopped when the communicator is aborted.
    void await(const std::function<bool()>& reached);
    [[nodiscard]] bool peer_is_lost() const;

    struct Stopped {};

    standin::Segment* segment_ = nullptr;
    std::atomic<bool> stopped_{false};
    std::atomic<int> fault_{0};  // of a kernel
    std::atomic<bool> working_{false};
    std::atomic<int> job_result_{0};
    std::thread job_;
    std::mutex mutex_;  // guards ends_
    std::vector<standin::PointRef> ends_;
    std::uint64_t meetings_ = 0;
    std::uint64_t host_meetings_ = 0;
    std::uint64_t steps_ = 0;
    unsigned kinds_connected_ = 0;
    std::atomic<bool> connecting_{false};
};

}  // namespace mpi_bridge::nccl

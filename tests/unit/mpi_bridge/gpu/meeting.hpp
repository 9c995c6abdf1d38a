// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <vector>

#include "gpu/device_group.hpp"
#include "mpi_bridge.h"

namespace mpi_bridge_test {

// Collectives on host memory between threads of one process: each shows the others its memory, all
// meet, each computes its own result, all meet again.
class Meeting {
  public:
    explicit Meeting(int size) : shown_(static_cast<std::size_t>(size)) {}

    // False when a rank does not come in time, or when the meeting was called off.
    template <typename Body>
    mpi_bridge::Done together(int rank, const void* memory, const Body& body) {
        shown_[static_cast<std::size_t>(rank)] = static_cast<const std::byte*>(memory);
        if (auto met = meet(); !met) return met;
        body(shown_);
        return meet();
    }

    void call_off() {
        const std::lock_guard lock(mutex_);
        off_ = true;
        changed_.notify_all();
    }

    // What the staged path asks for; sums by `reduce`, which knows the type.
    using Reduce = void (*)(std::byte* out, const std::vector<const std::byte*>& inputs,
                            std::size_t first, std::size_t count, mpib_datatype, mpib_op);
    mpi_bridge::HostCollectives collectives(int rank, Reduce reduce) {
        using mpi_bridge::Done;
        using Inputs = std::vector<const std::byte*>;
        mpi_bridge::HostCollectives host;
        host.allreduce = [this, rank, reduce](std::byte* data, std::size_t count,
                                              mpib_datatype datatype, mpib_op op) -> Done {
            std::vector<std::byte> result(count * 8);
            auto done = together(rank, data, [&](const Inputs& inputs) {
                reduce(result.data(), inputs, 0, count, datatype, op);
            });
            if (done) std::memcpy(data, result.data(), count * bytes_of(datatype));
            return done;
        };
        host.reduce_scatter = [this, rank, reduce](const std::byte* send, std::byte* recv,
                                                   std::span<const std::size_t> counts,
                                                   mpib_datatype datatype, mpib_op op) -> Done {
            std::size_t first = 0;
            for (int i = 0; i < rank; ++i)
                first += counts[static_cast<std::size_t>(i)];
            return together(rank, send, [&](const Inputs& inputs) {
                reduce(recv, inputs, first, counts[static_cast<std::size_t>(rank)], datatype, op);
            });
        };
        host.broadcast = [this, rank](std::span<std::byte> data, int root) {
            return together(rank, data.data(), [&](const Inputs& inputs) {
                if (rank == root) return;
                std::memcpy(data.data(), inputs[static_cast<std::size_t>(root)], data.size());
            });
        };
        host.allgather = [this, rank](std::span<const std::span<std::byte>> parts) {
            const auto own = parts[static_cast<std::size_t>(rank)];
            return together(rank, own.data(), [&](const Inputs& inputs) {
                for (std::size_t i = 0; i < parts.size(); ++i) {
                    if (static_cast<int>(i) == rank || parts[i].empty()) continue;
                    std::memcpy(parts[i].data(), inputs[i], parts[i].size());
                }
            });
        };
        host.alltoall = [this, rank](std::span<const std::span<const std::byte>> out,
                                     std::span<const std::span<std::byte>> in) {
            return together(rank, &out, [&](const Inputs& inputs) {
                for (std::size_t i = 0; i < in.size(); ++i) {
                    const auto& theirs =
                        *reinterpret_cast<const std::span<const std::span<const std::byte>>*>(
                            inputs[i]);
                    const auto part = theirs[static_cast<std::size_t>(rank)];
                    if (!part.empty()) std::memcpy(in[i].data(), part.data(), part.size());
                }
            });
        };
        return host;
    }

    // The control plane of DeviceGroup::open().
    void connect(mpi_bridge::DeviceGroupOptions& options) {
        const int rank = options.rank;
        options.broadcast_from_first = [this, rank](std::span<std::byte> data) {
            return together(rank, data.data(), [&](const std::vector<const std::byte*>& inputs) {
                if (rank != 0) std::memcpy(data.data(), inputs[0], data.size());
            });
        };
        options.allgather = [this, rank](std::span<const std::byte> own, std::span<std::byte> all) {
            return together(rank, own.data(), [&](const std::vector<const std::byte*>& inputs) {
                for (std::size_t i = 0; i < inputs.size(); ++i)
                    std::memcpy(all.data() + i * own.size(), inputs[i], own.size());
            });
        };
    }

    static std::size_t bytes_of(mpib_datatype datatype) {
        constexpr std::size_t bytes[] = {1, 1, 2, 4, 8, 2, 2, 4, 8, 1};
        return bytes[static_cast<int>(datatype)];
    }

  private:
    mpi_bridge::Done meet() {
        std::unique_lock lock(mutex_);
        const std::size_t round = round_;
        if (++arrived_ == shown_.size()) {
            arrived_ = 0;
            ++round_;
            changed_.notify_all();
            return {};
        }
        const auto deadline = mpi_bridge::Deadline::in(mpi_bridge::Seconds(20));
        const bool met =
            changed_.wait_until(lock, deadline.when(), [&] { return off_ || round_ != round; });
        if (met && !off_) return {};
        return mpi_bridge::fail(MPIB_ERROR_PEER_LOST, "a rank did not come to the meeting");
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<const std::byte*> shown_;
    std::size_t arrived_ = 0;
    std::size_t round_ = 0;
    bool off_ = false;
};

}  // namespace mpi_bridge_test

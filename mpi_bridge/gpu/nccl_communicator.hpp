// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "gpu/cuda_device.hpp"
#include "gpu/nccl_library.hpp"

namespace mpi_bridge {

// A non-blocking NCCL communicator. Calls that continue in the background are watched with a
// deadline, so that a lost peer cannot block this process forever. Only one thread at a time may
// use it, except for abandon(). After a failure only abort() may be called.
class NcclCommunicator {
  public:
    struct Options {
        std::string name;  // for messages
        int rank = 0;
        int size = 1;
        nccl::UniqueId id{};  // the same on all ranks, made by one of them
        Seconds patience = no_limit;
    };

    // Collective over the ranks.
    [[nodiscard]] static Outcome<std::unique_ptr<NcclCommunicator>> open(const nccl::Library& nccl,
                                                                         CudaDevice& device,
                                                                         Options options);
    ~NcclCommunicator() { abort(); }
    NcclCommunicator(const NcclCommunicator&) = delete;
    NcclCommunicator& operator=(const NcclCommunicator&) = delete;

    using Call = std::function<nccl::Result(nccl::Communicator)>;

    // Makes the call (`name` is for messages), and returns when NCCL has enqueued its work.
    [[nodiscard]] Done call(const char* name, const Call& call);

    // Does the same for several calls that NCCL is to start together; `calls` stops at its first
    // failure.
    [[nodiscard]] Done group(const char* name, const Call& calls);

    // Reports what has gone wrong in the background since the last call; never waits.
    [[nodiscard]] Done check();

    // Lets the enqueued work finish, and disconnects.
    [[nodiscard]] Done close(Deadline deadline);

    // ncclCommAbort: disconnects at once. Running NCCL kernels end.
    void abort();

    // Makes a call that waits in another thread, and each later one that would, fail with the first
    // cause. Any thread may call it; abort() must follow.
    void abandon(const Failure& cause);

  private:
    NcclCommunicator(const nccl::Library& nccl, CudaDevice& device, Options options)
        : nccl_(nccl), device_(device), options_(std::move(options)) {}
    [[nodiscard]] Done start();
    [[nodiscard]] Done settle(const char* name, nccl::Result result, Deadline deadline);
    [[nodiscard]] tl::unexpected<Failure> failed(const char* name, nccl::Result result) const;

    const nccl::Library& nccl_;
    CudaDevice& device_;
    Options options_;
    nccl::Communicator communicator_ = nullptr;
    std::mutex abandoning_;
    std::optional<Failure> cause_;  // of abandon(); guarded by `abandoning_`
};

}  // namespace mpi_bridge

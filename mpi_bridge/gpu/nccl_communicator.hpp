// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "gpu/cuda_device.hpp"
#include "gpu/nccl_library.hpp"

namespace mpi_bridge {

// A non-blocking communicator of NCCL: calls that go on in the background are looked after with a
// deadline, so that no lost peer can hold this process for ever. One thread at a time, except for
// interrupt(). After a failure only abort() is left.
class NcclCommunicator {
  public:
    struct Options {
        std::string name;  // for messages
        int rank = 0;
        int size = 1;
        nccl::UniqueId id{};  // the same on all ranks, made by one of them
        Seconds patience{300};
    };

    // Collective over the ranks.
    [[nodiscard]] static Outcome<std::unique_ptr<NcclCommunicator>> open(const nccl::Library& nccl,
                                                                         CudaDevice& device,
                                                                         Options options);
    ~NcclCommunicator() { abort(); }
    NcclCommunicator(const NcclCommunicator&) = delete;
    NcclCommunicator& operator=(const NcclCommunicator&) = delete;

    using Call = std::function<nccl::Result(nccl::Communicator)>;

    // Makes the call, named for messages, and returns when NCCL has enqueued its work.
    [[nodiscard]] Done call(const char* name, const Call& call);

    // The same for many calls that NCCL is to start together; `calls` stops at its first failure.
    [[nodiscard]] Done group(const char* name, const Call& calls);

    // What went wrong in the background since; never waits.
    [[nodiscard]] Done check();

    // Lets what was enqueued finish and leaves.
    [[nodiscard]] Done close(Deadline deadline);

    // Leaves at once. Kernels of NCCL that are running end.
    void abort();

    // Makes a call that waits in another thread give up.
    void interrupt() { interrupted_ = true; }

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
    std::atomic<bool> interrupted_{false};
};

}  // namespace mpi_bridge

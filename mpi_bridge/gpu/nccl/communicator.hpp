// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "gpu/cuda/device.hpp"
#include "gpu/nccl/library.hpp"

namespace mpi_bridge {

// A non-blocking NCCL communicator. Calls that continue in the background are watched with a
// deadline, so that a lost peer cannot block this process forever. Only one thread at a time may
// use it, except for abandon() and await_abandoned(), which any thread may call at any time. After
// a failure only these two may be called.
class NcclCommunicator {
  public:
    struct Options {
        std::string name;  // for messages, and NCCL's log
        int rank = 0;
        int size = 1;
        nccl::UniqueId id{};  // the same on all ranks, made by one of them
        Seconds patience = no_limit;
        std::function<Done()> watch;  // fails when connect() is to give up
    };

    // Begins to connect with the other ranks.
    [[nodiscard]] static Outcome<std::unique_ptr<NcclCommunicator>> begin(const nccl::Library& nccl,
                                                                          CudaDevice& device,
                                                                          Options options);
    // Collective: waits until all ranks are connected. Must come before everything else.
    [[nodiscard]] Done connect();
    ~NcclCommunicator();
    NcclCommunicator(const NcclCommunicator&) = delete;
    NcclCommunicator& operator=(const NcclCommunicator&) = delete;

    using Call = std::function<nccl::Result(nccl::Communicator)>;

    // Makes the call (`name` is for messages), and returns when NCCL has enqueued its work.
    [[nodiscard]] Done call(const char* name, const Call& call);

    // Does the same for several calls that NCCL is to start together; `calls` stops at its first
    // failure.
    [[nodiscard]] Done group(const char* name, const Call& calls);

    // The cause of abandon(), also after close(); {} before.
    [[nodiscard]] Done usable();

    // Reports what has gone wrong in the background since the last call; never waits.
    [[nodiscard]] Done check();

    // Lets the enqueued work finish, and disconnects.
    [[nodiscard]] Done close(Deadline deadline);

    // Makes every call, also one that waits in another thread, fail with the first cause, and
    // begins to abort the communicator in a thread of its own: NCCL ends its kernels at once, but
    // then frees memory, for which CUDA waits until the whole device is idle. So no communicator of
    // a device may be waited for before all that hang are abandoned.
    void abandon(const Failure& cause);
    // Waits until abandon() has come to its end. No kernel of NCCL uses memory from then on.
    void await_abandoned(Deadline deadline);

  private:
    NcclCommunicator(const nccl::Library& nccl, CudaDevice& device, Options options)
        : nccl_(nccl), device_(device), options_(std::move(options)) {}
    using Lock = std::lock_guard<std::mutex>;
    [[nodiscard]] Done usable(const Lock& calling) const;
    [[nodiscard]] Done settle(const char* name, nccl::Result result, Deadline deadline);
    [[nodiscard]] tl::unexpected<Failure> failed(const char* name, nccl::Result result) const;

    const nccl::Library& nccl_;
    CudaDevice& device_;
    Options options_;
    nccl::Result begun_ = nccl::success;

    // Held in every call of NCCL but ncclCommAbort(). These are short: none waits for other ranks.
    std::mutex calling_;
    nccl::Communicator communicator_ = nullptr;  // null from the beginning of an abort on
    std::optional<Failure> cause_;               // of abandon()
    std::thread aborting_;
    bool under_way_ = false;  // in `aborting_`
    std::condition_variable ended_;
};

}  // namespace mpi_bridge

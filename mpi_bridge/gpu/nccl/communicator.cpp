// SPDX-License-Identifier: Apache-2.0
#include "gpu/nccl/communicator.hpp"

#include <utility>

#include <fmt/format.h>

#include "core/quiet_thread.hpp"

namespace mpi_bridge {

Outcome<std::unique_ptr<NcclCommunicator>> NcclCommunicator::begin(const nccl::Library& nccl,
                                                                   CudaDevice& device,
                                                                   Options options) {
    std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(nccl, device, std::move(options)));
    const CudaDevice::Current current(device);
    nccl::Config config;
    config.name = made->options_.name.c_str();
    made->begun_ = nccl.init_rank(&made->communicator_, made->options_.size, made->options_.id,
                                  made->options_.rank, &config);
    if (made->begun_ != nccl::success && made->begun_ != nccl::in_progress) {
        return made->failed("ncclCommInitRankConfig", made->begun_);
    }
    return made;
}

Done NcclCommunicator::connect() {
    return settle("ncclCommInitRankConfig", begun_, Deadline::in(options_.patience));
}

NcclCommunicator::~NcclCommunicator() {
    abandon({MPIB_ERROR_NOT_INITIALIZED, options_.name + " is closed"});
    if (aborting_.joinable()) aborting_.join();
}

Done NcclCommunicator::usable(const Lock& /*calling*/) const {
    if (!cause_) return {};
    return tl::unexpected<Failure>(*cause_);
}

Done NcclCommunicator::usable() {
    const Lock lock(calling_);
    return usable(lock);
}

tl::unexpected<Failure> NcclCommunicator::failed(const char* name, nccl::Result result) const {
    const auto status = result == nccl::remote_error ? MPIB_ERROR_PEER_LOST : MPIB_ERROR_INTERNAL;
    return fail(status, fmt::format("{}, rank {} of {} on {}: {} failed: {}; NCCL_DEBUG=WARN tells "
                                    "more",
                                    options_.name, options_.rank, options_.size, device_.name(),
                                    name, nccl_.describe(result, communicator_)));
}

Done NcclCommunicator::settle(const char* name, nccl::Result result, Deadline deadline) {
    // Most calls finish within microseconds; the first of a kind makes connections, which takes
    // longer.
    constexpr int spins = 1000;
    constexpr std::chrono::microseconds pause{100};
    for (int looks = 0; result == nccl::in_progress; ++looks) {
        if (options_.watch) TRY(options_.watch());
        if (deadline.passed()) {
            return fail(MPIB_ERROR_TIMEOUT,
                        fmt::format("{}, rank {} of {}: {} did not come to an end in time; does "
                                    "every rank take part, and is the network that NCCL chose "
                                    "(NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO) one they share?",
                                    options_.name, options_.rank, options_.size, name));
        }
        if (looks >= spins) std::this_thread::sleep_for(pause);
        const Lock lock(calling_);
        TRY(usable(lock));
        const nccl::Result asked = nccl_.async_error(communicator_, &result);
        if (asked != nccl::success) return failed("ncclCommGetAsyncError", asked);
    }
    if (result == nccl::success) return {};
    const Lock lock(calling_);
    TRY(usable(lock));
    return failed(name, result);
}

Done NcclCommunicator::call(const char* name, const Call& call) {
    const CudaDevice::Current current(device_);
    nccl::Result result = nccl::success;
    {
        const Lock lock(calling_);
        TRY(usable(lock));
        result = call(communicator_);
    }
    return settle(name, result, Deadline::in(options_.patience));
}

Done NcclCommunicator::group(const char* name, const Call& calls) {
    const CudaDevice::Current current(device_);
    nccl::Result ended = nccl::success;
    {
        const Lock lock(calling_);
        TRY(usable(lock));
        if (const auto result = nccl_.group_start(); result != nccl::success) {
            return failed("ncclGroupStart", result);
        }
        const nccl::Result inside = calls(communicator_);
        ended = nccl_.group_end();
        if (inside != nccl::success && inside != nccl::in_progress) return failed(name, inside);
    }
    return settle(name, ended, Deadline::in(options_.patience));
}

Done NcclCommunicator::check() {
    const Lock lock(calling_);
    TRY(usable(lock));
    nccl::Result result = nccl::success;
    const nccl::Result asked = nccl_.async_error(communicator_, &result);
    if (asked != nccl::success) return failed("ncclCommGetAsyncError", asked);
    if (result == nccl::success || result == nccl::in_progress) return {};
    return failed("a collective", result);
}

Done NcclCommunicator::close(Deadline deadline) {
    const CudaDevice::Current current(device_);
    nccl::Result result = nccl::success;
    {
        const Lock lock(calling_);
        TRY(usable(lock));
        result = nccl_.finalize(communicator_);
    }
    auto finalized = settle("ncclCommFinalize", result, deadline);
    if (!finalized) {
        abandon(finalized.error());
        return finalized;
    }
    const Lock lock(calling_);
    TRY(usable(lock));
    cause_ = Failure{MPIB_ERROR_NOT_INITIALIZED, options_.name + " is closed"};
    result = nccl_.destroy(std::exchange(communicator_, nullptr));
    if (result == nccl::success) return {};
    return failed("ncclCommDestroy", result);
}

void NcclCommunicator::abandon(const Failure& cause) {
    const Lock lock(calling_);
    if (!cause_) cause_ = cause;
    if (communicator_ == nullptr) return;
    under_way_ = true;
    aborting_ = start_quiet_thread([this, aborted = std::exchange(communicator_, nullptr)] {
        const CudaDevice::Current current(device_);
        static_cast<void>(nccl_.abort(aborted));
        const Lock end(calling_);
        under_way_ = false;
        ended_.notify_all();
    });
}

void NcclCommunicator::await_abandoned(Deadline deadline) {
    std::unique_lock lock(calling_);
    ended_.wait_until(lock, deadline.when(), [this] { return !under_way_; });
}

}  // namespace mpi_bridge

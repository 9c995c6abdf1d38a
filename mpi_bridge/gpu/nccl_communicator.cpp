// SPDX-License-Identifier: Apache-2.0
#include "gpu/nccl_communicator.hpp"

#include <thread>

#include <fmt/format.h>

namespace mpi_bridge {

Outcome<std::unique_ptr<NcclCommunicator>> NcclCommunicator::open(const nccl::Library& nccl,
                                                                  CudaDevice& device,
                                                                  Options options) {
    std::unique_ptr<NcclCommunicator> communicator(
        new NcclCommunicator(nccl, device, std::move(options)));
    TRY(communicator->start());
    return communicator;
}

Done NcclCommunicator::start() {
    const CudaDevice::Current current(device_);
    nccl::Config config;
    const nccl::Result result =
        nccl_.init_rank(&communicator_, options_.size, options_.id, options_.rank, &config);
    return settle("ncclCommInitRankConfig", result, Deadline::in(options_.patience));
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
        {
            const std::lock_guard lock(abandoning_);
            if (cause_) return tl::unexpected(*cause_);
        }
        if (deadline.passed()) {
            return fail(MPIB_ERROR_TIMEOUT,
                        fmt::format("{}, rank {} of {}: {} did not come to an end in time; does "
                                    "every rank take part, and is the network that NCCL chose "
                                    "(NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO) one they share?",
                                    options_.name, options_.rank, options_.size, name));
        }
        if (looks >= spins) std::this_thread::sleep_for(pause);
        const nccl::Result asked = nccl_.async_error(communicator_, &result);
        if (asked != nccl::success) return failed("ncclCommGetAsyncError", asked);
    }
    if (result != nccl::success) return failed(name, result);
    return {};
}

Done NcclCommunicator::call(const char* name, const Call& call) {
    const CudaDevice::Current current(device_);
    return settle(name, call(communicator_), Deadline::in(options_.patience));
}

Done NcclCommunicator::group(const char* name, const Call& calls) {
    const CudaDevice::Current current(device_);
    if (const auto result = nccl_.group_start(); result != nccl::success) {
        return failed("ncclGroupStart", result);
    }
    const nccl::Result inside = calls(communicator_);
    const nccl::Result ended = nccl_.group_end();
    if (inside != nccl::success && inside != nccl::in_progress) return failed(name, inside);
    return settle(name, ended, Deadline::in(options_.patience));
}

Done NcclCommunicator::check() {
    nccl::Result result = nccl::success;
    const nccl::Result asked = nccl_.async_error(communicator_, &result);
    if (asked != nccl::success) return failed("ncclCommGetAsyncError", asked);
    if (result == nccl::success || result == nccl::in_progress) return {};
    return failed("a collective", result);
}

Done NcclCommunicator::close(Deadline deadline) {
    if (communicator_ == nullptr) return {};
    const CudaDevice::Current current(device_);
    auto finalized = settle("ncclCommFinalize", nccl_.finalize(communicator_), deadline);
    if (!finalized) {
        abort();
        return finalized;
    }
    const nccl::Result result = nccl_.destroy(communicator_);
    communicator_ = nullptr;
    if (result != nccl::success) return failed("ncclCommDestroy", result);
    return {};
}

void NcclCommunicator::abandon(const Failure& cause) {
    const std::lock_guard lock(abandoning_);
    if (!cause_) cause_ = cause;
}

void NcclCommunicator::abort() {
    if (communicator_ == nullptr) return;
    const CudaDevice::Current current(device_);
    static_cast<void>(nccl_.abort(communicator_));
    communicator_ = nullptr;
}

}  // namespace mpi_bridge

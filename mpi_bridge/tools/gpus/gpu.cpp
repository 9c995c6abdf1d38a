// SPDX-License-Identifier: Apache-2.0
#include "tools/gpus/gpu.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/deadline.hpp"

namespace mpi_bridge::gpus {
namespace {

constexpr std::size_t copied_bytes = 16UL << 20U;

double bytes_per_second(std::size_t bytes, Clock::time_point begin) {
    const std::chrono::duration<double> took = Clock::now() - begin;
    return static_cast<double>(bytes) / took.count();
}

}  // namespace

void Gpu::open() {
    done_ = cuda_.check(cuda_.device_get(&device_, ordinal_), "cuDeviceGet");
    if (!done_) return;
    // Asked for now: a device that has failed answers nothing.
    char bus[32] = "?";
    if (cuda_.device_bus_id(bus, sizeof bus, device_) == cuda::success) bus_ = bus;
    done_ = cuda_.check(cuda_.primary_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
}

Done Gpu::prepare() {
    TRY(std::move(done_));
    TRY(cuda_.check(cuda_.context_push(context_), "cuCtxPushCurrent"));
    TRY(cuda_.check(cuda_.stream_create(&stream_, cuda::stream_non_blocking, 0), "cuStreamCreate"));
    TRY(cuda_.check(cuda_.memory_allocate(&memory_, copied_bytes), "cuMemAlloc"));
    TRY(cuda_.check(cuda_.memory_allocate(&inbox_, copied_bytes), "cuMemAlloc"));
    sent_ = TRY(pinned());
    returned_ = TRY(pinned());
    for (std::size_t i = 0; i < copied_bytes; ++i)
        sent_[i] = static_cast<char>(i * 31 + i / 4093 + static_cast<std::size_t>(ordinal_));
    return leave();
}

Outcome<double> Gpu::copy_from_and_to_host() {
    TRY(cuda_.check(cuda_.context_push(context_), "cuCtxPushCurrent"));
    std::memset(returned_, 0, copied_bytes);
    const auto begin = Clock::now();
    TRY(copy(memory_, reinterpret_cast<cuda::Address>(sent_)));
    TRY(copy(reinterpret_cast<cuda::Address>(returned_), memory_));
    const double speed = bytes_per_second(2 * copied_bytes, begin);
    if (std::memcmp(sent_, returned_, copied_bytes) != 0)
        return fail(MPIB_ERROR_INTERNAL, "its memory does not return what was copied to it");
    TRY(leave());
    return speed;
}

bool Gpu::connect(Gpu& other) {
    int can = 0;
    if (cuda_.can_access_peer(&can, device_, other.device_) != cuda::success || can == 0)
        return false;
    if (cuda_.context_push(context_) != cuda::success) return false;
    const auto result = cuda_.enable_peer_access(other.context_, 0);
    return leave() && (result == cuda::success || result == cuda::peer_access_already_enabled);
}

Outcome<double> Gpu::copy_to(Gpu& other) {
    TRY(cuda_.check(cuda_.context_push(context_), "cuCtxPushCurrent"));
    const auto begin = Clock::now();
    TRY(cuda_.check(cuda_.copy_peer_async(other.inbox_, other.context_, memory_, context_,
                                          copied_bytes, stream_),
                    "cuMemcpyPeerAsync"));
    TRY(cuda_.check(cuda_.stream_synchronize(stream_), "cuStreamSynchronize"));
    const double speed = bytes_per_second(copied_bytes, begin);
    TRY(leave());
    if (!TRY(other.holds(other.inbox_, sent_)))
        return fail(MPIB_ERROR_INTERNAL, "what is copied directly arrives changed");
    return speed;
}

std::string Gpu::name() const {
    if (bus_.empty()) return fmt::format("GPU {}", ordinal_);
    return fmt::format("GPU {} (PCI {})", ordinal_, bus_);
}

Done Gpu::leave() const {
    cuda::Context popped = nullptr;
    return cuda_.check(cuda_.context_pop(&popped), "cuCtxPopCurrent");
}

Outcome<char*> Gpu::pinned() const {
    void* memory = nullptr;
    TRY(cuda_.check(cuda_.host_allocate(&memory, copied_bytes, cuda::host_alloc_portable),
                    "cuMemHostAlloc"));
    return static_cast<char*>(memory);
}

Done Gpu::copy(cuda::Address to, cuda::Address from) const {
    TRY(cuda_.check(cuda_.copy_async(to, from, copied_bytes, stream_), "cuMemcpyAsync"));
    return cuda_.check(cuda_.stream_synchronize(stream_), "cuStreamSynchronize");
}

Outcome<bool> Gpu::holds(cuda::Address from, const char* sent) {
    TRY(cuda_.check(cuda_.context_push(context_), "cuCtxPushCurrent"));
    std::memset(returned_, 0, copied_bytes);
    TRY(copy(reinterpret_cast<cuda::Address>(returned_), from));
    TRY(leave());
    return std::memcmp(sent, returned_, copied_bytes) == 0;
}

}  // namespace mpi_bridge::gpus

// SPDX-License-Identifier: Apache-2.0
//
// The driver's calls that allocate, free and copy.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "capture.hpp"
#include "handles.hpp"
#include "memory.hpp"

using namespace standin;

namespace {

constexpr int poison = 0xC3;

std::byte* host_pointer(cuda::Address address) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<std::byte*>(address);
}

// Copies, ten times as slowly as the host if so said: on a busy machine 50 ms alone would be
// little.
void move_bytes(std::byte* to, const std::byte* from, std::size_t bytes, bool slowly) {
    const auto begin = std::chrono::steady_clock::now();
    std::memmove(to, from, bytes);
    if (!slowly) return;
    const auto took = std::chrono::steady_clock::now() - begin;
    std::this_thread::sleep_for(
        std::max<std::chrono::nanoseconds>(std::chrono::milliseconds(50), 9 * took));
}

// Puts the copy into the stream. Memory of the host that is not pinned is not touched later: what
// comes from it is kept, as the driver does, and what goes there is waited for.
cuda::Result copy(Stream& stream, cuda::Address to, cuda::Address from, std::size_t bytes) {
    if (stream.capture() != nullptr) return result(state_of_capture(stream));
    if (bytes == 0) return cuda::success;
    const int device = stream.device.ordinal;
    const auto source = Memory::get().place_of(from).kind;
    const auto target = Memory::get().place_of(to).kind;
    if (source == Memory::Kind::pageable || target == Memory::Kind::pageable) {
        static_cast<void>(Plan::get().enter("a copy of pageable memory"));
    }
    std::shared_ptr<std::vector<std::byte>> kept;
    if (source == Memory::Kind::pageable) {
        kept = std::make_shared<std::vector<std::byte>>(host_pointer(from),
                                                        host_pointer(from) + bytes);
    }
    const auto end = stream.put([=, &stream] {
        auto* const in = kept ? kept->data() : Memory::get().reach(from, bytes, device);
        auto* const out = target == Memory::Kind::pageable ? host_pointer(to)
                                                           : Memory::get().reach(to, bytes, device);
        // Who looks at the result too early shall see that.
        if (target == Memory::Kind::pinned) {
            std::memset(out, poison, bytes);
            Plan::get().pause(reinterpret_cast<std::uint64_t>(&stream), to);
        }
        move_bytes(out, in, bytes, Plan::get().setting("slow") == device);
    });
    if (target == Memory::Kind::pageable) end->wait();
    return result(target == Memory::Kind::pageable ? stream.device.fault.load() : 0);
}

cuda::Address allocate(std::size_t bytes, const Device& device) {
    return Memory::get().reserve(bytes, device.ordinal);
}

}  // namespace

extern "C" {

cuda::Result cuMemAlloc_v2(cuda::Address* address, std::size_t bytes) {
    if (const auto refused = enter_unsafe("cuMemAlloc_v2")) return refused;
    *address = allocate(bytes, *current_device());
    if (*address == 0) return result(bytes == 0 ? invalid_value : out_of_memory);
    Memory::get().open(*address);
    return cuda::success;
}

cuda::Result cuMemFree_v2(cuda::Address address) {
    if (address == 0) return cuda::success;
    // For memory of cuMemAllocAsync it waits for nothing, as cuda.h says.
    const bool in_order = Memory::get().is_in_order(address);
    if (const auto refused = in_order ? enter("cuMemFree_v2") : enter_unsafe("cuMemFree_v2")) {
        return refused;
    }
    if (!Memory::get().give_back(address)) misuse("cuMemFree of no allocation");
    // Whatever runs in spite of that may not find it any more.
    Memory::get().close(address);
    return cuda::success;
}

cuda::Result cuMemAllocAsync(cuda::Address* address, std::size_t bytes, cuda::Stream handle) {
    if (const auto refused = enter("cuMemAllocAsync")) return refused;
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return result(invalid_context);
    *address = Memory::get().reserve(bytes, stream->device.ordinal, true);
    if (*address == 0) return result(bytes == 0 ? invalid_value : out_of_memory);
    stream->put([at = *address] { Memory::get().open(at); });
    return cuda::success;
}

cuda::Result cuMemFreeAsync(cuda::Address address, cuda::Stream handle) {
    if (const auto refused = enter("cuMemFreeAsync")) return refused;
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return result(invalid_context);
    if (!Memory::get().give_back(address)) misuse("cuMemFreeAsync of no allocation");
    stream->put([address] { Memory::get().close(address); });
    return cuda::success;
}

cuda::Result cuMemHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
    if (const auto refused = enter_unsafe("cuMemHostAlloc")) return refused;
    *memory = Memory::get().pin(bytes);
    return result(*memory != nullptr ? 0 : bytes == 0 ? invalid_value : out_of_memory);
}

cuda::Result cuMemFreeHost(void* memory) {
    if (const auto refused = enter_unsafe("cuMemFreeHost")) return refused;
    if (!Memory::get().unpin(memory)) misuse("cuMemFreeHost of no pinned memory");
    return cuda::success;
}

cuda::Result cuMemcpyAsync(cuda::Address to, cuda::Address from, std::size_t bytes,
                           cuda::Stream handle) {
    if (const auto refused = enter("cuMemcpyAsync")) return refused;
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return result(invalid_context);
    return copy(*stream, to, from, bytes);
}

cuda::Result cuMemcpyPeerAsync(cuda::Address to, cuda::Context of_to, cuda::Address from,
                               cuda::Context of_from, std::size_t bytes, cuda::Stream handle) {
    if (const auto refused = enter("cuMemcpyPeerAsync")) return refused;
    Stream* const stream = stream_of(handle);
    if (stream == nullptr || of_to == nullptr || of_from == nullptr) return result(invalid_context);
    if (stream->capture() != nullptr) return result(state_of_capture(*stream));
    // Between two that are not connected, the driver copies through the memory of the host.
    const int source = of_from->device->ordinal;
    const int target = of_to->device->ordinal;
    const bool direct = of_from->device->reaches(*of_to->device);
    stream->put([=] {
        const auto* const in = Memory::get().reach(from, bytes, source);
        auto* const out = Memory::get().reach(to, bytes, target);
        const long far = Plan::get().setting("far");
        move_bytes(out, in, bytes, direct && (far == source || far == target));
        if (direct && Plan::get().setting("garbles") == target) out[bytes / 2] ^= std::byte{1};
    });
    return cuda::success;
}

cuda::Result cuMemsetD8Async(cuda::Address address, unsigned char value, std::size_t bytes,
                             cuda::Stream handle) {
    if (const auto refused = enter("cuMemsetD8Async")) return refused;
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return result(invalid_context);
    if (stream->capture() != nullptr) return result(state_of_capture(*stream));
    stream->put([=, device = stream->device.ordinal] {
        std::memset(Memory::get().reach(address, bytes, device), value, bytes);
    });
    return cuda::success;
}

// Returns when the source has been read: what comes from pageable memory may still be on its way.
cuda::Result cuMemcpyHtoD_v2(cuda::Address to, const void* from, std::size_t bytes) {
    if (const auto refused = enter("cuMemcpyHtoD_v2")) return refused;
    Stream* const stream = stream_of(nullptr);
    if (stream == nullptr) return result(invalid_context);
    if (!unsafe_calls_allowed()) return result(capture_unsupported);
    if (const auto before = stream->last()) before->wait();
    stream->put([] {
        std::this_thread::sleep_for(std::chrono::microseconds(Plan::get().setting("delay")));
    });
    return copy(*stream, to, reinterpret_cast<cuda::Address>(from), bytes);
}
}

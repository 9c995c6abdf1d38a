// SPDX-License-Identifier: Apache-2.0
//
// The driver's calls about streams and events.
#include <chrono>

#include "capture.hpp"
#include "handles.hpp"

namespace standin {

Handles<cuda::StreamRecord>& streams() {
    static auto& handles = *new Handles<cuda::StreamRecord>("a stream");
    return handles;
}

Handles<cuda::EventRecord>& events() {
    static auto& handles = *new Handles<cuda::EventRecord>("an event");
    return handles;
}

Stream* stream_of(cuda::Stream handle) {
    constexpr std::uintptr_t legacy = 1;
    if (handle != nullptr && reinterpret_cast<std::uintptr_t>(handle) != legacy) {
        return streams().at(handle).stream;
    }
    Device* const device = current_device();
    return device == nullptr ? nullptr : &device->legacy();
}

}  // namespace standin

using namespace standin;

extern "C" {

cuda::Result cuStreamCreateWithPriority(cuda::Stream* handle, unsigned flags, int /*priority*/) {
    if (const auto refused = enter("cuStreamCreateWithPriority")) return refused;
    Device* const device = current_device();
    if (device == nullptr) return result(invalid_context);
    const auto kind = (flags & cuda::stream_non_blocking) != 0 ? Stream::Kind::non_blocking
                                                               : Stream::Kind::blocking;
    auto record = std::make_unique<cuda::StreamRecord>();
    record->stream = &device->new_stream(kind);
    *handle = streams().add(std::move(record));
    return cuda::success;
}

// Returns at once; what the stream holds is still done.
cuda::Result cuStreamDestroy_v2(cuda::Stream handle) {
    if (const auto refused = enter("cuStreamDestroy_v2")) return refused;
    stream_of(handle)->retire();
    streams().remove(handle);
    return cuda::success;
}

cuda::Result cuStreamSynchronize(cuda::Stream handle) {
    if (const auto refused = enter("cuStreamSynchronize")) return refused;
    const Stream* const stream = stream_of(handle);
    if (stream == nullptr) return result(invalid_context);
    if (const auto capture = stream->capture()) {
        capture->invalid = true;
        return result(capture_unsupported);
    }
    if (!unsafe_calls_allowed()) return result(capture_unsupported);
    if (const auto end = stream->last()) end->wait();
    return result(stream->device.fault.load());
}

// Waits for the record that is the latest at this moment.
cuda::Result cuStreamWaitEvent(cuda::Stream handle, cuda::Event event, unsigned /*flags*/) {
    if (const auto refused = enter("cuStreamWaitEvent")) return refused;
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return result(invalid_context);
    cuda::EventRecord& record = events().at(event);
    PointRef point;
    {
        const std::lock_guard lock(record.mutex);
        const auto capture = stream->capture();
        if (record.capture != nullptr) {
            // The waiting stream joins the capture.
            if (capture != nullptr && capture != record.capture) return result(capture_isolation);
            stream->set_capture(record.capture);
            return cuda::success;
        }
        if (capture != nullptr && record.latest != nullptr) {
            capture->invalid = true;
            return result(capture_isolation);
        }
        point = record.latest;
    }
    if (point != nullptr) stream->put([point] { point->wait(); });
    return cuda::success;
}

cuda::Result cuEventCreate(cuda::Event* event, unsigned flags) {
    if (const auto refused = enter("cuEventCreate")) return refused;
    Device* const device = current_device();
    if (device == nullptr) return result(invalid_context);
    auto record = std::make_unique<cuda::EventRecord>();
    record->device = device;
    record->timed = (flags & cuda::event_disable_timing) == 0;
    *event = events().add(std::move(record));
    return cuda::success;
}

cuda::Result cuEventDestroy_v2(cuda::Event event) {
    if (const int code = Plan::get().code_of("cuEventDestroy_v2")) return result(code);
    events().remove(event);
    return cuda::success;
}

cuda::Result cuEventRecord(cuda::Event event, cuda::Stream handle) {
    if (const auto refused = enter("cuEventRecord")) return refused;
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return result(invalid_context);
    cuda::EventRecord& record = events().at(event);
    if (record.device != &stream->device) return result(invalid_handle);
    const std::lock_guard lock(record.mutex);
    record.capture = stream->capture();
    if (record.capture != nullptr) return result(state_of_capture(*stream));
    record.latest = stream->put([] {});
    return cuda::success;
}

cuda::Result cuEventQuery(cuda::Event event) {
    if (const auto refused = enter("cuEventQuery")) return refused;
    cuda::EventRecord& record = events().at(event);
    const std::lock_guard lock(record.mutex);
    if (record.capture != nullptr) {
        record.capture->invalid = true;
        return result(captured_event);
    }
    if (!unsafe_calls_allowed()) return result(capture_unsupported);
    if (const int fault = record.device->fault) return result(fault);
    if (record.latest == nullptr || record.latest->reached()) {
        return result(record.device->fault.load());
    }
    return cuda::not_ready;
}

cuda::Result cuEventElapsedTime(float* milliseconds, cuda::Event from, cuda::Event to) {
    if (const auto refused = enter("cuEventElapsedTime")) return refused;
    cuda::EventRecord& first = events().at(from);
    cuda::EventRecord& second = events().at(to);
    const std::scoped_lock lock(first.mutex, second.mutex);
    if (!first.timed || !second.timed || first.latest == nullptr || second.latest == nullptr) {
        return result(invalid_handle);
    }
    if (!first.latest->reached() || !second.latest->reached()) return cuda::not_ready;
    *milliseconds =
        std::chrono::duration<float, std::milli>(second.latest->when() - first.latest->when())
            .count();
    return cuda::success;
}

// For tests, which put work of their own into a stream: a slow kernel, or one that waits.
cuda::Result cuLaunchHostFunc(cuda::Stream handle, void (*function)(void*), void* data) {
    if (const auto refused = enter("cuLaunchHostFunc")) return refused;
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return result(invalid_context);
    if (stream->capture() != nullptr) return result(state_of_capture(*stream));
    stream->put([function, data] { function(data); });
    return cuda::success;
}
}

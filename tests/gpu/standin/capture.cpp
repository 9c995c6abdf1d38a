// SPDX-License-Identifier: Apache-2.0
#include "capture.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "handles.hpp"
#include "plan.hpp"

namespace standin {
namespace {

thread_local CaptureMode own_mode = CaptureMode::global;

std::mutex& captures_mutex() {
    static auto& mutex = *new std::mutex;
    return mutex;
}

std::vector<std::shared_ptr<Capture>>& captures() {
    static auto& all = *new std::vector<std::shared_ptr<Capture>>;
    return all;
}

}  // namespace

bool unsafe_calls_allowed() {
    if (own_mode == CaptureMode::relaxed) return true;
    const std::lock_guard lock(captures_mutex());
    bool allowed = true;
    for (const auto& capture : captures()) {
        const bool own = capture->thread == std::this_thread::get_id();
        const bool spoilt =
            own ? capture->mode != CaptureMode::relaxed
                : capture->mode == CaptureMode::global && own_mode == CaptureMode::global;
        if (!spoilt) continue;
        capture->invalid = true;
        allowed = false;
    }
    return allowed;
}

int state_of_capture(const Stream& stream) {
    const auto capture = stream.capture();
    return capture != nullptr && capture->invalid ? capture_invalidated : 0;
}

}  // namespace standin

using namespace standin;

extern "C" {

cuda::Result cuThreadExchangeStreamCaptureMode(int* mode) {
    if (const auto refused = enter("cuThreadExchangeStreamCaptureMode")) return refused;
    if (mode == nullptr || *mode < 0 || *mode > 2) return result(invalid_value);
    *mode = static_cast<int>(std::exchange(own_mode, static_cast<CaptureMode>(*mode)));
    return cuda::success;
}

cuda::Result cuStreamBeginCapture_v2(cuda::Stream handle, int mode) {
    if (const auto refused = enter("cuStreamBeginCapture_v2")) return refused;
    Stream* const stream = stream_of(handle);
    // The legacy stream cannot be captured.
    if (stream == nullptr || stream->kind == Stream::Kind::legacy) {
        return result(capture_unsupported);
    }
    const std::lock_guard lock(captures_mutex());
    if (stream->capture() != nullptr) return result(invalid_value);
    auto capture = std::make_shared<Capture>();
    capture->mode = static_cast<CaptureMode>(mode);
    capture->thread = std::this_thread::get_id();
    stream->set_capture(capture);
    captures().push_back(std::move(capture));
    return cuda::success;
}

cuda::Result cuStreamEndCapture(cuda::Stream handle, void** graph) {
    if (const auto refused = enter("cuStreamEndCapture")) return refused;
    Stream* const stream = stream_of(handle);
    if (graph != nullptr) *graph = nullptr;
    const std::lock_guard lock(captures_mutex());
    const auto capture = stream == nullptr ? nullptr : stream->capture();
    if (capture == nullptr) return result(capture_unmatched);
    if (capture->mode != CaptureMode::relaxed && capture->thread != std::this_thread::get_id()) {
        return result(capture_wrong_thread);
    }
    stream->set_capture(nullptr);
    std::erase(captures(), capture);
    return capture->invalid ? result(capture_invalidated) : cuda::success;
}

cuda::Result cuStreamIsCapturing(cuda::Stream handle, int* status) {
    if (const auto refused = enter("cuStreamIsCapturing")) return refused;
    const Stream* const stream = stream_of(handle);
    if (stream == nullptr || status == nullptr) return result(invalid_value);
    // 0: none, 1: active, 2: invalidated.
    const auto capture = stream->capture();
    *status = capture == nullptr ? 0 : capture->invalid ? 2 : 1;
    return cuda::success;
}
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "device.hpp"

namespace standin {

enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

// A capture of one stream and of those that wait for its events. What is put into a captured stream
// is not run; the stand-in makes no graphs of it.
struct Capture {
    CaptureMode mode = CaptureMode::global;
    std::thread::id thread;
    std::atomic<bool> invalid{false};
};

// Whether this thread may make a call that could spoil a capture, its own or another thread's. If
// it may not, these captures are invalid from now on.
bool unsafe_calls_allowed();

// What a call on this stream does: capture_invalidated, or 0.
int state_of_capture(const Stream& stream);

}  // namespace standin

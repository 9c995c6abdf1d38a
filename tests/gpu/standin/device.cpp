// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "capture.hpp"
#include "plan.hpp"

namespace standin {
namespace {

// Errors after which a device does nothing more for this process.
bool ends_the_device(int code) {
    return code == illegal_address || code == launch_failed;
}

std::atomic<int>& streams_made() {
    static auto& count = *new std::atomic<int>(0);
    return count;
}

}  // namespace

Device::Device(int its_ordinal) : ordinal(its_ordinal) {
    legacy_ = &new_stream(Stream::Kind::legacy);
}

Stream& Device::new_stream(Stream::Kind kind) {
    const std::lock_guard lock(mutex_);
    return streams_.emplace_back(*this, kind, ++streams_made());
}

std::vector<PointRef> Device::ends_that_bind(const Stream& stream) {
    std::vector<PointRef> ends;
    const std::lock_guard lock(mutex_);
    for (const Stream& other : streams_) {
        const bool binds =
            (stream.kind == Stream::Kind::legacy && other.kind == Stream::Kind::blocking) ||
            (stream.kind == Stream::Kind::blocking && other.kind == Stream::Kind::legacy);
        if (!binds) continue;
        if (auto end = other.last()) ends.push_back(std::move(end));
    }
    return ends;
}

void Device::wait_until_idle() {
    std::vector<PointRef> ends;
    {
        const std::lock_guard lock(mutex_);
        for (const Stream& stream : streams_) {
            if (auto end = stream.last()) ends.push_back(std::move(end));
        }
    }
    for (const PointRef& end : ends)
        end->wait();
}

bool Device::connect(const Device& other) {
    const std::lock_guard lock(mutex_);
    return peers_.insert(other.ordinal).second;
}

bool Device::reaches(const Device& other) {
    const std::lock_guard lock(mutex_);
    return peers_.contains(other.ordinal);
}

bool Device::take_slot(const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex_);
    while (slots_in_use_ >= Plan::get().setting("slots")) {
        if (stop) return false;
        changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    ++slots_in_use_;
    return true;
}

void Device::free_slot() {
    const std::lock_guard lock(mutex_);
    --slots_in_use_;
    changed_.notify_all();
}

int visible_devices() {
    const int devices = static_cast<int>(Plan::get().setting("devices"));
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) return devices;
    const std::string_view list = visible;
    if (list.empty()) return 0;
    return std::min(devices, 1 + static_cast<int>(std::count(list.begin(), list.end(), ',')));
}

Device* device_at(int ordinal) {
    static auto& mutex = *new std::mutex;
    static auto& devices = *new std::map<int, Device>;
    if (ordinal < 0 || ordinal >= visible_devices()) return nullptr;
    const std::lock_guard lock(mutex);
    return &devices.try_emplace(ordinal, ordinal).first->second;
}

cuda::Result enter(const char* call) {
    const int code = Plan::get().code_of(call);
    Device* const device = current_device();
    if (device == nullptr) return result(code);
    if (ends_the_device(code)) device->fault = code;
    return result(code != 0 ? code : device->fault.load());
}

cuda::Result enter_unsafe(const char* call) {
    if (const auto refused = enter(call); refused != cuda::success) return refused;
    if (!unsafe_calls_allowed()) return result(capture_unsupported);
    Device* const device = current_device();
    if (device == nullptr) return result(invalid_context);
    if (Plan::get().setting("idle") != 0) device->wait_until_idle();
    return result(device->fault.load());
}

}  // namespace standin

// SPDX-License-Identifier: Apache-2.0
//
// The driver's calls about itself, its devices and their contexts.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "capture.hpp"
#include "handles.hpp"
#include "memory.hpp"

using namespace standin;

namespace standin {
namespace {

thread_local std::vector<cuda::Context> current;

// The primary contexts; a device has one.
cuda::Context primary_context(Device& device) {
    static auto& mutex = *new std::mutex;
    static auto& contexts = *new std::map<Device*, cuda::ContextRecord>;
    const std::lock_guard lock(mutex);
    return &contexts.try_emplace(&device, cuda::ContextRecord{&device}).first->second;
}

struct Named {
    int code;
    const char* name;
    const char* text;
};
constexpr std::array errors = {
    Named{0, "CUDA_SUCCESS", "no error"},
    Named{invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    Named{out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Named{no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    Named{invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    Named{invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    Named{peer_access_unsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
          "peer access is not supported between these two devices"},
    Named{cuda::peer_access_already_enabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
          "peer access is already enabled"},
    Named{no_binary, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
    Named{invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    Named{not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    Named{cuda::not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    Named{illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
    Named{launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    Named{cuda::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    Named{capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
          "operation not permitted when stream is capturing"},
    Named{capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
          "operation failed due to a previous error during capture"},
    Named{capture_isolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
          "dependency created on uncaptured work in another stream"},
    Named{captured_event, "CUDA_ERROR_CAPTURED_EVENT",
          "operation not permitted on an event last recorded in a capturing stream"},
};

const Named* find_error(int code) {
    const auto* found =
        std::find_if(errors.begin(), errors.end(), [&](const Named& e) { return e.code == code; });
    return found == errors.end() ? nullptr : found;
}

}  // namespace

Device* current_device() {
    return current.empty() || current.back() == nullptr ? nullptr : current.back()->device;
}

}  // namespace standin

extern "C" {

cuda::Result cuInit(unsigned flags) {
    if (const auto refused = enter("cuInit")) return refused;
    if (visible_devices() == 0) return result(no_device);
    return result(flags == 0 ? 0 : invalid_value);
}

cuda::Result cuGetErrorName(cuda::Result code, const char** name) {
    const Named* const found = find_error(code);
    *name = found == nullptr ? nullptr : found->name;
    return result(found == nullptr ? invalid_value : 0);
}

cuda::Result cuGetErrorString(cuda::Result code, const char** text) {
    const Named* const found = find_error(code);
    *text = found == nullptr ? nullptr : found->text;
    return result(found == nullptr ? invalid_value : 0);
}

cuda::Result cuDeviceGetCount(int* count) {
    if (const auto refused = enter("cuDeviceGetCount")) return refused;
    *count = visible_devices();
    return cuda::success;
}

cuda::Result cuDeviceGet(cuda::Device* device, int ordinal) {
    if (const auto refused = enter("cuDeviceGet")) return refused;
    if (device_at(ordinal) == nullptr) return result(invalid_device);
    *device = ordinal;
    return cuda::success;
}

cuda::Result cuDeviceGetName(char* name, int length, cuda::Device device) {
    if (const auto refused = enter("cuDeviceGetName")) return refused;
    if (device_at(device) == nullptr) return result(invalid_device);
    std::snprintf(name, static_cast<std::size_t>(length), "stand-in GPU");
    return cuda::success;
}

cuda::Result cuDeviceGetAttribute(int* value, cuda::DeviceAttribute attribute, cuda::Device) {
    if (const auto refused = enter("cuDeviceGetAttribute")) return refused;
    *value = attribute == cuda::compute_capability_major ? 9 : 0;
    return cuda::success;
}

cuda::Result cuDeviceGetUuid_v2(cuda::Uuid* uuid, cuda::Device device) {
    if (const auto refused = enter("cuDeviceGetUuid_v2")) return refused;
    if (device_at(device) == nullptr) return result(invalid_device);
    std::memset(uuid->bytes, 0x42, sizeof uuid->bytes);
    uuid->bytes[15] = static_cast<char>(device);
    return cuda::success;
}

cuda::Result cuDeviceGetPCIBusId(char* text, int length, cuda::Device device) {
    if (const auto refused = enter("cuDeviceGetPCIBusId")) return refused;
    if (device_at(device) == nullptr) return result(invalid_device);
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", 0x10 + device);
    return cuda::success;
}

cuda::Result cuDeviceCanAccessPeer(int* can, cuda::Device from, cuda::Device to) {
    if (const auto refused = enter("cuDeviceCanAccessPeer")) return refused;
    if (device_at(from) == nullptr || device_at(to) == nullptr) return result(invalid_device);
    *can = from != to && Plan::get().setting("peers") != 0 ? 1 : 0;
    return cuda::success;
}

cuda::Result cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::Device device) {
    if (const auto refused = enter("cuDevicePrimaryCtxRetain")) return refused;
    Device* const found = device_at(device);
    if (found == nullptr) return result(invalid_device);
    *context = primary_context(*found);
    return cuda::success;
}

cuda::Result cuCtxPushCurrent_v2(cuda::Context context) {
    if (const int code = Plan::get().code_of("cuCtxPushCurrent_v2")) return result(code);
    if (context == nullptr) return result(invalid_context);
    current.push_back(context);
    return cuda::success;
}

cuda::Result cuCtxPopCurrent_v2(cuda::Context* context) {
    if (const int code = Plan::get().code_of("cuCtxPopCurrent_v2")) return result(code);
    if (current.empty()) return result(invalid_context);
    if (context != nullptr) *context = current.back();
    current.pop_back();
    return cuda::success;
}

cuda::Result cuCtxEnablePeerAccess(cuda::Context other, unsigned flags) {
    if (const auto refused = enter("cuCtxEnablePeerAccess")) return refused;
    Device* const device = current_device();
    if (device == nullptr || other == nullptr || other->device == device)
        return result(invalid_context);
    if (flags != 0) return result(invalid_value);
    if (Plan::get().setting("peers") == 0) return result(peer_access_unsupported);
    return device->connect(*other->device) ? cuda::success : cuda::peer_access_already_enabled;
}

cuda::Result cuCtxGetDevice(cuda::Device* device) {
    if (const int code = Plan::get().code_of("cuCtxGetDevice")) return result(code);
    Device* const found = current_device();
    if (found == nullptr) return result(invalid_context);
    *device = found->ordinal;
    return cuda::success;
}

cuda::Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    if (const auto refused = enter("cuCtxGetStreamPriorityRange")) return refused;
    if (current_device() == nullptr) return result(invalid_context);
    *least = 0;
    *greatest = -5;
    return cuda::success;
}

cuda::Result cuPointerGetAttribute(void* value, cuda::PointerAttribute attribute,
                                   cuda::Address address) {
    if (const auto refused = enter("cuPointerGetAttribute")) return refused;
    const Memory::Place place = Memory::get().place_of(address);
    if (place.kind == Memory::Kind::pageable ||
        (place.kind == Memory::Kind::device && place.device < 0)) {
        return result(invalid_value);
    }
    if (attribute == cuda::memory_type) {
        const unsigned type = place.kind == Memory::Kind::device ? cuda::memory_type_device : 1;
        std::memcpy(value, &type, sizeof type);
    } else {
        std::memcpy(value, &place.device, sizeof place.device);
    }
    return cuda::success;
}

// For tests: what has been made and not yet been destroyed.
long batchai_standin_live_events() {
    return events().live();
}
long batchai_standin_live_streams() {
    return streams().live();
}
long batchai_standin_live_memory() {
    return Memory::get().blocks();
}
}

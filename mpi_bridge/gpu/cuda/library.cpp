// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/library.hpp"

#include <fmt/format.h>

#include "gpu/shared_library.hpp"

namespace mpi_bridge::cuda {
namespace {

constexpr const char* file_names[] = {"libcuda.so.1"};

constexpr LibraryRequest request{
    "the CUDA driver",
    "MPI_BRIDGE_CUDA_LIBRARY",
    file_names,
    {},
    "install NVIDIA's driver; in a container, start it with the host's driver (--gpus, CDI)"};

Done bind_all(const SharedLibrary& file, Library& cuda) {
    Done done;
    const auto bind = [&](auto& function, const char* symbol) {
        if (done) done = file.bind(function, symbol);
    };
    bind(cuda.init, "cuInit");
    bind(cuda.error_name, "cuGetErrorName");
    bind(cuda.error_string, "cuGetErrorString");
    bind(cuda.device_count, "cuDeviceGetCount");
    bind(cuda.device_get, "cuDeviceGet");
    bind(cuda.device_name, "cuDeviceGetName");
    bind(cuda.device_attribute, "cuDeviceGetAttribute");
    bind(cuda.device_uuid, "cuDeviceGetUuid_v2");  // tells instances (MIG) of one GPU apart
    bind(cuda.device_bus_id, "cuDeviceGetPCIBusId");
    bind(cuda.primary_retain, "cuDevicePrimaryCtxRetain");
    bind(cuda.context_push, "cuCtxPushCurrent_v2");
    bind(cuda.context_pop, "cuCtxPopCurrent_v2");
    bind(cuda.context_device, "cuCtxGetDevice");
    bind(cuda.stream_priorities, "cuCtxGetStreamPriorityRange");
    bind(cuda.pointer_attribute, "cuPointerGetAttribute");
    bind(cuda.memory_allocate, "cuMemAlloc_v2");
    bind(cuda.memory_free, "cuMemFree_v2");
    bind(cuda.memory_allocate_async, "cuMemAllocAsync");
    bind(cuda.memory_free_async, "cuMemFreeAsync");
    bind(cuda.host_allocate, "cuMemHostAlloc");
    bind(cuda.host_free, "cuMemFreeHost");
    bind(cuda.copy_async, "cuMemcpyAsync");
    bind(cuda.can_access_peer, "cuDeviceCanAccessPeer");
    bind(cuda.enable_peer_access, "cuCtxEnablePeerAccess");
    bind(cuda.copy_peer_async, "cuMemcpyPeerAsync");
    bind(cuda.stream_create, "cuStreamCreateWithPriority");
    bind(cuda.stream_destroy, "cuStreamDestroy_v2");
    bind(cuda.stream_wait_event, "cuStreamWaitEvent");
    bind(cuda.stream_synchronize, "cuStreamSynchronize");
    bind(cuda.stream_is_capturing, "cuStreamIsCapturing");
    bind(cuda.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
    bind(cuda.event_create, "cuEventCreate");
    bind(cuda.event_destroy, "cuEventDestroy_v2");
    bind(cuda.event_record, "cuEventRecord");
    bind(cuda.event_query, "cuEventQuery");
    bind(cuda.event_elapsed, "cuEventElapsedTime");
    bind(cuda.module_load, "cuModuleLoadData");
    bind(cuda.module_unload, "cuModuleUnload");
    bind(cuda.module_function, "cuModuleGetFunction");
    bind(cuda.launch, "cuLaunchKernel");
    return done;
}

Outcome<Library> load() {
    const auto file = TRY(SharedLibrary::open(request));
    Library cuda{};
    cuda.path = file.path();
    TRY(bind_all(file, cuda));
    TRY(cuda.check(cuda.init(0), "cuInit"));
    return cuda;
}

}  // namespace

std::string Library::describe(Result result) const {
    const char* name = nullptr;
    const char* text = nullptr;
    if (error_name(result, &name) != success || error_string(result, &text) != success) {
        return fmt::format("CUDA error {}", static_cast<int>(result));
    }
    return fmt::format("{} ({})", name, text);
}

Done Library::check(Result result, const char* call) const {
    if (result == success) return {};
    return fail(MPIB_ERROR_INTERNAL, fmt::format("{} failed: {}", call, describe(result)));
}

Outcome<const Library*> library() {
    static const Outcome<Library> loaded = load();
    if (!loaded) return tl::unexpected<Failure>(loaded.error());
    return &*loaded;
}

bool is_installed() {
    return SharedLibrary::open(request).has_value();
}

std::optional<Device> current_device() {
    const auto file = SharedLibrary::find_loaded(request);
    decltype(Library::context_device) context_device = nullptr;
    Device device = 0;
    if (!file || !file->bind(context_device, "cuCtxGetDevice")) return std::nullopt;
    if (context_device(&device) != success) return std::nullopt;
    return device;
}

}  // namespace mpi_bridge::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/failure.hpp"

// The part of the CUDA driver's C API that is used here, declared anew so that the build needs no
// CUDA header. Names and numbers are those of cuda.h, whose binary interface is stable since CUDA
// 11.
//
// The driver is used instead of the runtime: libcuda.so.1 exists wherever a GPU works, has one name
// for all CUDA versions, and shares the device's primary context, its streams and its events with
// every runtime that a framework in this process may have loaded (cudaStream_t is CUstream).
namespace mpi_bridge::cuda {

enum Result : int {
    success = 0,
    invalid_value = 1,
    invalid_context = 201,
    not_ready = 600,
    peer_access_already_enabled = 704,
    not_supported = 801,
};

using Device = int;
using Context = struct ContextRecord*;
using Stream = struct StreamRecord*;
using Event = struct EventRecord*;
using Module = struct ModuleRecord*;
using Function = struct FunctionRecord*;
using Address = unsigned long long;

struct Uuid {
    char bytes[16];
};

enum DeviceAttribute : int {
    compute_capability_major = 75,
    compute_capability_minor = 76,
};
enum PointerAttribute : int { memory_type = 2, device_ordinal = 9 };

constexpr unsigned memory_type_device = 2;
constexpr unsigned stream_non_blocking = 1;
constexpr int not_captured = 0;
// A thread in this mode may call everything while others capture graphs, and spoils no graph.
constexpr int capture_mode_relaxed = 2;
constexpr unsigned event_disable_timing = 2;
constexpr unsigned host_alloc_portable = 1;

// Whether it is the default stream of the calling thread (CU_STREAM_PER_THREAD).
inline bool is_per_thread(const void* stream) {
    return reinterpret_cast<std::uintptr_t>(stream) == 2;
}

// The functions of the library, and functions that describe their results.
struct Library {
    Result (*init)(unsigned flags);
    Result (*error_name)(Result, const char** name);
    Result (*error_string)(Result, const char** text);

    Result (*device_count)(int* count);
    Result (*device_get)(Device*, int ordinal);
    Result (*device_name)(char* name, int length, Device);
    Result (*device_attribute)(int* value, DeviceAttribute, Device);
    Result (*device_uuid)(Uuid*, Device);
    Result (*device_bus_id)(char* text, int length, Device);

    Result (*primary_retain)(Context*, Device);
    Result (*context_push)(Context);
    Result (*context_pop)(Context*);
    Result (*context_device)(Device*);
    Result (*stream_priorities)(int* least, int* greatest);
    Result (*pointer_attribute)(void* value, PointerAttribute, Address);

    Result (*memory_allocate)(Address*, std::size_t bytes);
    Result (*memory_free)(Address);
    Result (*memory_allocate_async)(Address*, std::size_t bytes, Stream);
    Result (*memory_free_async)(Address, Stream);
    Result (*host_allocate)(void**, std::size_t bytes, unsigned flags);
    Result (*host_free)(void*);
    Result (*copy_async)(Address to, Address from, std::size_t bytes, Stream);

    // Whether `from` can reach the memory of `to`.
    Result (*can_access_peer)(int* can, Device from, Device to);
    // Gives the current context access to the memory of the other one.
    Result (*enable_peer_access)(Context other, unsigned flags);
    Result (*copy_peer_async)(Address to, Context of_to, Address from, Context of_from,
                              std::size_t bytes, Stream);

    Result (*stream_create)(Stream*, unsigned flags, int priority);
    Result (*stream_destroy)(Stream);
    Result (*stream_wait_event)(Stream, Event, unsigned flags);
    Result (*stream_synchronize)(Stream);
    Result (*stream_is_capturing)(Stream, int* status);
    Result (*exchange_capture_mode)(int* mode);
    Result (*event_create)(Event*, unsigned flags);
    Result (*event_destroy)(Event);
    Result (*event_record)(Event, Stream);
    Result (*event_query)(Event);
    Result (*event_elapsed)(float* milliseconds, Event from, Event to);

    Result (*module_load)(Module*, const void* image);
    Result (*module_unload)(Module);
    Result (*module_function)(Function*, Module, const char* name);
    Result (*launch)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream,
                     void** arguments, void** extra);

    std::string path;

    // Returns text such as "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
    [[nodiscard]] std::string describe(Result result) const;
    // Returns {} for success, otherwise a failure such as "cuMemAlloc failed: <describe>".
    [[nodiscard]] Done check(Result result, const char* call) const;
};

// Loads and initialises the driver at the first call; later calls return the same answer. Any
// thread may call it. MPI_BRIDGE_CUDA_LIBRARY names a file to load instead of libcuda.so.1.
[[nodiscard]] Outcome<const Library*> library();

// Whether the driver's library can be loaded. CUDA is not initialised, so that a process may still
// fork children that use it.
[[nodiscard]] bool is_installed();

// Returns the device that is current for the calling thread, if there is one. Nothing is loaded or
// initialised for it.
[[nodiscard]] std::optional<Device> current_device();

}  // namespace mpi_bridge::cuda

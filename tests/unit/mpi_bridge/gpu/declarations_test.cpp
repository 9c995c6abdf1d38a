// SPDX-License-Identifier: Apache-2.0
//
// Our declarations of the vendors' interfaces beside the vendors' own.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <cuda.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include "gpu/cuda/library.hpp"
#include "gpu/nccl/library.hpp"

namespace {

namespace ours = mpi_bridge;

// Whether one may be called as the other: as many arguments, each of the same size and kind.
template <typename A, typename B>
constexpr bool alike = sizeof(A) == sizeof(B) &&
                       std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_floating_point_v<A> ==
                           std::is_floating_point_v<B>;
template <typename A, typename B>
struct SameCall : std::false_type {};
template <typename R, typename... A, typename Q, typename... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), Q (*)(B...)>
    : std::bool_constant<alike<R, Q> && (alike<A, B> && ... && true)> {
};

#define EXPECT_SAME_CALL(member, function) \
    static_assert(SameCall<decltype(member), decltype(&(function))>::value, #function)

using Cuda = ours::cuda::Library;
EXPECT_SAME_CALL(Cuda::init, cuInit);
EXPECT_SAME_CALL(Cuda::error_name, cuGetErrorName);
EXPECT_SAME_CALL(Cuda::error_string, cuGetErrorString);
EXPECT_SAME_CALL(Cuda::device_count, cuDeviceGetCount);
EXPECT_SAME_CALL(Cuda::device_get, cuDeviceGet);
EXPECT_SAME_CALL(Cuda::device_name, cuDeviceGetName);
EXPECT_SAME_CALL(Cuda::device_attribute, cuDeviceGetAttribute);
EXPECT_SAME_CALL(Cuda::device_uuid, cuDeviceGetUuid);
EXPECT_SAME_CALL(Cuda::device_bus_id, cuDeviceGetPCIBusId);
EXPECT_SAME_CALL(Cuda::primary_retain, cuDevicePrimaryCtxRetain);
EXPECT_SAME_CALL(Cuda::context_push, cuCtxPushCurrent);
EXPECT_SAME_CALL(Cuda::context_pop, cuCtxPopCurrent);
EXPECT_SAME_CALL(Cuda::context_device, cuCtxGetDevice);
EXPECT_SAME_CALL(Cuda::stream_priorities, cuCtxGetStreamPriorityRange);
EXPECT_SAME_CALL(Cuda::pointer_attribute, cuPointerGetAttribute);
EXPECT_SAME_CALL(Cuda::memory_allocate, cuMemAlloc);
EXPECT_SAME_CALL(Cuda::memory_free, cuMemFree);
EXPECT_SAME_CALL(Cuda::memory_allocate_async, cuMemAllocAsync);
EXPECT_SAME_CALL(Cuda::memory_free_async, cuMemFreeAsync);
EXPECT_SAME_CALL(Cuda::host_allocate, cuMemHostAlloc);
EXPECT_SAME_CALL(Cuda::host_free, cuMemFreeHost);
EXPECT_SAME_CALL(Cuda::copy_async, cuMemcpyAsync);
EXPECT_SAME_CALL(Cuda::can_access_peer, cuDeviceCanAccessPeer);
EXPECT_SAME_CALL(Cuda::enable_peer_access, cuCtxEnablePeerAccess);
EXPECT_SAME_CALL(Cuda::copy_peer_async, cuMemcpyPeerAsync);
EXPECT_SAME_CALL(Cuda::stream_create, cuStreamCreateWithPriority);
EXPECT_SAME_CALL(Cuda::stream_destroy, cuStreamDestroy);
EXPECT_SAME_CALL(Cuda::stream_wait_event, cuStreamWaitEvent);
EXPECT_SAME_CALL(Cuda::stream_synchronize, cuStreamSynchronize);
EXPECT_SAME_CALL(Cuda::stream_is_capturing, cuStreamIsCapturing);
EXPECT_SAME_CALL(Cuda::exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
EXPECT_SAME_CALL(Cuda::event_create, cuEventCreate);
EXPECT_SAME_CALL(Cuda::event_destroy, cuEventDestroy);
EXPECT_SAME_CALL(Cuda::event_record, cuEventRecord);
EXPECT_SAME_CALL(Cuda::event_query, cuEventQuery);
EXPECT_SAME_CALL(Cuda::event_elapsed, cuEventElapsedTime);
EXPECT_SAME_CALL(Cuda::module_load, cuModuleLoadData);
EXPECT_SAME_CALL(Cuda::module_unload, cuModuleUnload);
EXPECT_SAME_CALL(Cuda::module_function, cuModuleGetFunction);
EXPECT_SAME_CALL(Cuda::launch, cuLaunchKernel);

using Nccl = ours::nccl::Library;
EXPECT_SAME_CALL(Nccl::get_version, ncclGetVersion);
EXPECT_SAME_CALL(Nccl::error_string, ncclGetErrorString);
EXPECT_SAME_CALL(Nccl::last_error, ncclGetLastError);
EXPECT_SAME_CALL(Nccl::unique_id, ncclGetUniqueId);
EXPECT_SAME_CALL(Nccl::init_rank, ncclCommInitRankConfig);
EXPECT_SAME_CALL(Nccl::async_error, ncclCommGetAsyncError);
EXPECT_SAME_CALL(Nccl::finalize, ncclCommFinalize);
EXPECT_SAME_CALL(Nccl::destroy, ncclCommDestroy);
EXPECT_SAME_CALL(Nccl::abort, ncclCommAbort);
EXPECT_SAME_CALL(Nccl::create_pre_mul_sum, ncclRedOpCreatePreMulSum);
EXPECT_SAME_CALL(Nccl::destroy_op, ncclRedOpDestroy);
EXPECT_SAME_CALL(Nccl::all_reduce, ncclAllReduce);
EXPECT_SAME_CALL(Nccl::reduce, ncclReduce);
EXPECT_SAME_CALL(Nccl::reduce_scatter, ncclReduceScatter);
EXPECT_SAME_CALL(Nccl::broadcast, ncclBroadcast);
EXPECT_SAME_CALL(Nccl::all_gather, ncclAllGather);
EXPECT_SAME_CALL(Nccl::send, ncclSend);
EXPECT_SAME_CALL(Nccl::recv, ncclRecv);
EXPECT_SAME_CALL(Nccl::group_start, ncclGroupStart);
EXPECT_SAME_CALL(Nccl::group_end, ncclGroupEnd);

TEST(Declarations, NumbersAreTheDriversOwn) {
    namespace cuda = ours::cuda;
    EXPECT_EQ(cuda::success, static_cast<int>(CUDA_SUCCESS));
    EXPECT_EQ(cuda::not_ready, static_cast<int>(CUDA_ERROR_NOT_READY));
    EXPECT_EQ(cuda::not_supported, static_cast<int>(CUDA_ERROR_NOT_SUPPORTED));
    EXPECT_EQ(cuda::compute_capability_major,
              static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
    EXPECT_EQ(cuda::compute_capability_minor,
              static_cast<int>(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
    EXPECT_EQ(cuda::memory_type, static_cast<int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
    EXPECT_EQ(cuda::device_ordinal, static_cast<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
    EXPECT_EQ(cuda::memory_type_device, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
    EXPECT_EQ(cuda::stream_non_blocking, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
    EXPECT_EQ(cuda::event_disable_timing, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
    EXPECT_EQ(cuda::host_alloc_portable, static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE));
    EXPECT_EQ(sizeof(cuda::Uuid), sizeof(CUuuid));
}

TEST(Declarations, NumbersAreNcclsOwn) {
    namespace nccl = ours::nccl;
    EXPECT_EQ(nccl::success, static_cast<int>(ncclSuccess));
    EXPECT_EQ(nccl::remote_error, static_cast<int>(ncclRemoteError));
    EXPECT_EQ(nccl::in_progress, static_cast<int>(ncclInProgress));
    EXPECT_EQ(nccl::int8, static_cast<int>(ncclInt8));
    EXPECT_EQ(nccl::uint8, static_cast<int>(ncclUint8));
    EXPECT_EQ(nccl::int32, static_cast<int>(ncclInt32));
    EXPECT_EQ(nccl::int64, static_cast<int>(ncclInt64));
    EXPECT_EQ(nccl::float16, static_cast<int>(ncclFloat16));
    EXPECT_EQ(nccl::bfloat16, static_cast<int>(ncclBfloat16));
    EXPECT_EQ(nccl::float32, static_cast<int>(ncclFloat32));
    EXPECT_EQ(nccl::float64, static_cast<int>(ncclFloat64));
    EXPECT_EQ(nccl::sum, static_cast<int>(ncclSum));
    EXPECT_EQ(nccl::product, static_cast<int>(ncclProd));
    EXPECT_EQ(nccl::maximum, static_cast<int>(ncclMax));
    EXPECT_EQ(nccl::minimum, static_cast<int>(ncclMin));
    EXPECT_EQ(nccl::scalar_on_host, static_cast<int>(ncclScalarHostImmediate));
    EXPECT_EQ(sizeof(nccl::UniqueId), sizeof(ncclUniqueId));
}

// NCCL's own initial values are ours but for those of `size`, `version` and `blocking`, as far as
// this header knows the struct.
TEST(Declarations, TheConfigurationIsNccls) {
    ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    ours::nccl::Config config;
    EXPECT_EQ(offsetof(ours::nccl::Config, name), offsetof(ncclConfig_t, commName));
    EXPECT_EQ(offsetof(ours::nccl::Config, blocking), offsetof(ncclConfig_t, blocking));
    EXPECT_EQ(offsetof(ours::nccl::Config, nvlink_centric_sched),
              offsetof(ncclConfig_t, nvlinkCentricSched));
    theirs.size = config.size;
    theirs.version = config.version;
    theirs.blocking = config.blocking;
    EXPECT_EQ(
        std::memcmp(&theirs, &config, std::min(sizeof theirs, offsetof(ours::nccl::Config, next))),
        0);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 32, 0)
    EXPECT_EQ(sizeof theirs, sizeof config);
    EXPECT_EQ(offsetof(ours::nccl::Config, nvls_host_mode), offsetof(ncclConfig_t, nvlsHostMode));
#endif
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "core/failure.hpp"
#include "gpu/cuda_library.hpp"

// NCCL's C API as far as it is used here, declared anew so that neither nccl.h nor a CUDA toolkit
// is needed to build. Names and numbers are those of nccl.h; its binary interface is stable within
// libnccl.so.2.
namespace mpi_bridge::nccl {

enum Result : int {
    success = 0,
    remote_error = 6,
    in_progress = 7,  // a call on a non-blocking communicator goes on in the background
};

enum DataType : int {
    int8 = 0,
    uint8 = 1,
    int32 = 2,
    int64 = 4,
    float16 = 6,
    float32 = 7,
    float64 = 8,
    bfloat16 = 9,
};

// Numbers from 5 on are made by red_op_create_pre_mul_sum.
enum RedOp : int { sum = 0, product = 1, maximum = 2, minimum = 3 };

enum ScalarResidence : int { scalar_on_device = 0, scalar_on_host = 1 };

using Communicator = struct CommunicatorRecord*;

struct UniqueId {
    char bytes[128];
};

// The head of ncclConfig_t: NCCL reads as many bytes as `size` says, and takes defaults for what a
// struct of the `version` given did not have. 2.14 is where non-blocking communicators came.
struct Config {
    std::size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = 21400;
    int blocking = 0;
};

constexpr int oldest_version = 22000;
// The first that can serve several ranks on one GPU, when NCCL_MULTI_RANK_GPU_ENABLE=1 is set.
constexpr int shared_gpu_version = 23000;

// "2.28.9" for 22809.
[[nodiscard]] std::string version_text(int version);

struct Library {
    Result (*get_version)(int* version);
    const char* (*error_string)(Result);
    const char* (*last_error)(Communicator);
    Result (*unique_id)(UniqueId*);
    Result (*init_rank)(Communicator*, int ranks, UniqueId, int rank, Config*);
    Result (*async_error)(Communicator, Result*);
    Result (*finalize)(Communicator);
    Result (*destroy)(Communicator);
    Result (*abort)(Communicator);
    Result (*create_pre_mul_sum)(RedOp*, void* scalar, DataType, ScalarResidence, Communicator);
    Result (*destroy_op)(RedOp, Communicator);
    Result (*all_reduce)(const void* send, void* recv, std::size_t count, DataType, RedOp,
                         Communicator, cuda::Stream);
    Result (*reduce)(const void* send, void* recv, std::size_t count, DataType, RedOp, int root,
                     Communicator, cuda::Stream);
    Result (*reduce_scatter)(const void* send, void* recv, std::size_t recv_count, DataType, RedOp,
                             Communicator, cuda::Stream);
    Result (*broadcast)(const void* send, void* recv, std::size_t count, DataType, int root,
                        Communicator, cuda::Stream);
    Result (*all_gather)(const void* send, void* recv, std::size_t send_count, DataType,
                         Communicator, cuda::Stream);
    Result (*send)(const void* buffer, std::size_t count, DataType, int peer, Communicator,
                   cuda::Stream);
    Result (*recv)(void* buffer, std::size_t count, DataType, int peer, Communicator, cuda::Stream);
    Result (*group_start)();
    Result (*group_end)();

    int version = 0;
    std::string path;

    // Result's text, and what NCCL itself noted last for the communicator (which may be null).
    [[nodiscard]] std::string describe(Result result, Communicator communicator) const;
};

// Loads at the first call; the same answer ever after. Any thread. Fails where NCCL is older than
// 2.20. MPI_BRIDGE_NCCL_LIBRARY names another file than libnccl.so.2.
[[nodiscard]] Outcome<const Library*> library();

}  // namespace mpi_bridge::nccl

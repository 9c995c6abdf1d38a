// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "core/failure.hpp"
#include "gpu/cuda/library.hpp"

// The part of NCCL's C API that is used here, declared anew so that the build needs neither nccl.h
// nor a CUDA toolkit. Names and numbers are those of nccl.h, whose binary interface is stable
// within libnccl.so.2.
namespace mpi_bridge::nccl {

enum Result : int {
    success = 0,
    remote_error = 6,
    in_progress = 7,  // a call on a non-blocking communicator continues in the background
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

// red_op_create_pre_mul_sum makes the numbers from 5 on.
enum RedOp : int { sum = 0, product = 1, maximum = 2, minimum = 3 };

enum ScalarResidence : int { scalar_on_device = 0, scalar_on_host = 1 };

using Communicator = struct CommunicatorRecord*;

struct UniqueId {
    char bytes[128];
};

// ncclConfig_t of NCCL 2.32. An older NCCL reads as much of it as it knows, a newer one uses
// defaults for the rest. It is declared to the end, because some members, such as `name`, are read
// whatever `version` is, so no padding may be where they would be.
struct Config {
    static constexpr int unset = std::numeric_limits<int>::min();
    std::size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = 23203;
    int blocking = 0;  // no
    int cga_cluster_size = unset;
    int min_ctas = unset;
    int max_ctas = unset;
    const char* net_name = nullptr;
    int split_share = unset;
    int traffic_class = unset;
    const char* name = nullptr;  // for NCCL's log; must outlive the communicator
    int collnet_enable = unset;
    int cta_policy = unset;
    int shrink_share = unset;
    int nvls_ctas = unset;
    int channels_per_net_peer = unset;
    int nvlink_centric_sched = unset;
    int graph_usage_mode = unset;
    int rma_contexts = unset;
    int max_p2p_peers = unset;
    int graph_stream_ordering = unset;
    int launch_order_implicit = unset;
    int rma_signals = unset;
    int rma_eager_init = unset;
    int host_cft_mode = unset;
    int nvls_host_mode = unset;
    int next = unset;  // where a later NCCL may have a member
};
static_assert(sizeof(Config) == 120);

constexpr int oldest_version = 22000;
// The first version that can serve several ranks on one GPU, if NCCL_MULTI_RANK_GPU_ENABLE=1 is
// set.
constexpr int shared_gpu_version = 23000;

// Returns "2.28.9" for 22809.
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

    // Returns the text for the result, and NCCL's own last message about the communicator (which
    // may be null).
    [[nodiscard]] std::string describe(Result result, Communicator communicator) const;
};

// Loads the library at the first call that finds one; later calls return that. Any thread may call
// it.
// Fails if NCCL is older than 2.20. MPI_BRIDGE_NCCL_LIBRARY names a file to load instead of
// libnccl.so.2.
[[nodiscard]] Outcome<const Library*> library();

// Returns the version of the library that is in this process, or that MPI_BRIDGE_NCCL_LIBRARY
// names; 0 if there is none or it cannot be used. Loads no other: a framework that is imported
// later would get it in place of its own.
[[nodiscard]] int version_in_process();

}  // namespace mpi_bridge::nccl

// SPDX-License-Identifier: Apache-2.0
//
// The functions of the C API that are passed on to the engine.
#include <algorithm>
#include <cstring>

#include "api/with_engine.hpp"
#include "core/fork_guard.hpp"
#include "core/interruption.hpp"
#include "gpu/cuda/library.hpp"
#include "gpu/nccl/library.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {
namespace {

Done submit(Engine& engine, const mpib_operation* operation, mpib_handle* handle) {
    if (operation == nullptr || handle == nullptr)
        return invalid("mpib_submit: operation or handle is NULL");
    *handle = TRY(engine.submit(*operation));
    return {};
}

Done call(Engine& engine, const mpib_operation* operation) {
    if (operation == nullptr) return invalid("mpib_call: operation is NULL");
    const bool needs_memory = operation->kind == MPIB_ALLGATHER ||
                              operation->kind == MPIB_ALLTOALL ||
                              operation->kind == MPIB_REDUCE_SCATTER;
    if (needs_memory && operation->recv == nullptr && operation->recv_bytes != MPIB_NO_BYTES)
        return invalid("mpib_call: recv is NULL; use mpib_submit, whose result can be asked for");
    return engine.call(*operation);
}

// Fills the caller's struct up to its struct_bytes.
Done get_result(Engine& engine, mpib_handle handle, mpib_result* result) {
    if (result == nullptr || result->struct_bytes < sizeof result->struct_bytes)
        return invalid("mpib_get_result: result is NULL, or its struct_bytes is not set");
    auto found = TRY(engine.result(handle));
    const std::size_t room = result->struct_bytes;
    found.struct_bytes = room;
    std::memset(static_cast<void*>(result), 0, room);
    std::memcpy(static_cast<void*>(result), &found, std::min(room, sizeof found));
    return {};
}

int copy_out(const std::vector<int>& values, int* out, int room) {
    if (out != nullptr && room > 0) {
        const auto count = std::min(values.size(), static_cast<std::size_t>(room));
        std::copy_n(values.begin(), count, out);
    }
    return static_cast<int>(values.size());
}

constexpr int unknown_set = -2;

}  // namespace
}  // namespace mpi_bridge

using mpi_bridge::copy_out;
using mpi_bridge::Done;
using mpi_bridge::Engine;
using mpi_bridge::number_from_engine;
using mpi_bridge::unknown_set;
using mpi_bridge::with_engine;

mpib_status mpib_submit(const mpib_operation* operation, mpib_handle* handle) {
    return with_engine("mpib_submit", [=](Engine& engine) {
        return mpi_bridge::submit(engine, operation, handle);
    });
}

int mpib_poll(mpib_handle handle) {
    return number_from_engine(-1, [=](Engine& engine) {
        const auto done = engine.poll(handle);
        return !done ? -1 : (*done ? 1 : 0);
    });
}

mpib_status mpib_wait(mpib_handle handle, double seconds) {
    return with_engine("mpib_wait", [=](Engine& engine) { return engine.wait(handle, seconds); });
}

void mpib_set_wait_hook(mpib_wait_hook hook, void* context) {
    if (mpi_bridge::in_forked_child()) return;
    mpi_bridge::Interruption::set_hook(hook, context);
}

mpib_status mpib_get_result(mpib_handle handle, mpib_result* result) {
    return with_engine("mpib_get_result", [=](Engine& engine) {
        return mpi_bridge::get_result(engine, handle, result);
    });
}

mpib_status mpib_release(mpib_handle handle) {
    return with_engine("mpib_release", [=](Engine& engine) { return engine.release(handle); });
}

mpib_status mpib_call(const mpib_operation* operation) {
    return with_engine("mpib_call",
                       [=](Engine& engine) { return mpi_bridge::call(engine, operation); });
}

mpib_status mpib_join(int* last_rank) {
    return with_engine("mpib_join", [=](Engine& engine) -> Done {
        const int last = TRY(engine.join());
        if (last_rank != nullptr) *last_rank = last;
        return {};
    });
}

mpib_status mpib_set_device(int device) {
    return with_engine("mpib_set_device",
                       [=](Engine& engine) { return engine.set_device(device); });
}

int mpib_device(void) {
    return number_from_engine(MPIB_DEVICE_UNKNOWN, [](Engine& engine) { return engine.device(); });
}

int64_t mpib_device_mark(mpib_handle handle) {
    int64_t mark = 0;
    (void)with_engine("mpib_device_mark", [&](Engine& engine) -> Done {
        mark = engine.device_mark(handle);
        return {};
    });
    return mark;
}

int mpib_device_reached(int64_t mark) {
    return number_from_engine(-1, [=](Engine& engine) {
        const auto reached = engine.device_reached(mark);
        return !reached ? -1 : (*reached ? 1 : 0);
    });
}

mpib_status mpib_process_set_add(const int* ranks, int count, int* id) {
    return with_engine("mpib_process_set_add", [=](Engine& engine) -> Done {
        if (ranks == nullptr || count <= 0 || id == nullptr)
            return mpi_bridge::invalid("mpib_process_set_add: ranks or id is NULL, or count is 0");
        *id = TRY(engine.add_process_set({ranks, static_cast<std::size_t>(count)}));
        return {};
    });
}

mpib_status mpib_process_set_open(const int* ranks, int count, int id) {
    return with_engine("mpib_process_set_open", [=](Engine& engine) -> Done {
        if (ranks == nullptr || count <= 0)
            return mpi_bridge::invalid("mpib_process_set_open: no ranks");
        return engine.open_process_set({ranks, static_cast<std::size_t>(count)}, id);
    });
}

mpib_status mpib_process_set_close(int id) {
    return with_engine("mpib_process_set_close",
                       [=](Engine& engine) { return engine.close_process_set(id); });
}

mpib_status mpib_process_set_remove(int id) {
    return with_engine("mpib_process_set_remove",
                       [=](Engine& engine) { return engine.remove_process_set(id); });
}

int mpib_process_set_rank(int id) {
    return number_from_engine(unknown_set, [=](Engine& engine) {
        return engine.process_set_rank(id).value_or(unknown_set);
    });
}

int mpib_process_set_size(int id) {
    return number_from_engine(unknown_set, [=](Engine& engine) {
        const auto ranks = engine.process_set_ranks(id);
        return ranks ? static_cast<int>(ranks->size()) : unknown_set;
    });
}

int mpib_process_set_ranks(int id, int* ranks, int room) {
    return number_from_engine(unknown_set, [=](Engine& engine) {
        const auto found = engine.process_set_ranks(id);
        return found ? copy_out(*found, ranks, room) : unknown_set;
    });
}

int mpib_process_set_is_free(int id) {
    return number_from_engine(
        0, [=](Engine& engine) { return engine.process_set_is_free(id) ? 1 : 0; });
}

int mpib_process_set_ids(int* ids, int room) {
    return number_from_engine(
        0, [=](Engine& engine) { return copy_out(engine.process_set_ids(), ids, room); });
}

int mpib_cuda_installed(void) {
    int installed = 0;
    (void)mpi_bridge::guarded([&]() -> mpi_bridge::Done {
        installed = mpi_bridge::cuda::is_installed() ? 1 : 0;
        return {};
    });
    return installed;
}

int mpib_nccl_version(void) {
    int version = 0;
    (void)mpi_bridge::guarded([&]() -> mpi_bridge::Done {
        if (mpi_bridge::cuda::is_installed()) version = mpi_bridge::nccl::version_in_process();
        return {};
    });
    return version;
}

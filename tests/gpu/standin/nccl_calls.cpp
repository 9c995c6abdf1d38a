// SPDX-License-Identifier: Apache-2.0
//
// NCCL's calls.
#include <cstdlib>
#include <cstring>
#include <limits>

#include "handles.hpp"
#include "nccl_arithmetic.hpp"
#include "nccl_communicator.hpp"

using namespace standin;
using mpi_bridge::nccl::CommunicatorRecord;

namespace {

constexpr int unset = std::numeric_limits<int>::min();

Handles<CommunicatorRecord>& communicators() {
    static auto& handles = *new Handles<CommunicatorRecord>("a communicator");
    return handles;
}

// What a thread has called since ncclGroupStart().
struct Group {
    int depth = 0;
    nccl::Communicator communicator = nullptr;
    std::vector<Operation> operations;
    std::vector<nccl::Communicator> aborted;
    Plan::Fate fate;
    nccl::Result fault = nccl::success;
};
thread_local Group group;

bool is_fault(nccl::Result result) {
    return result != nccl::success && result != nccl::in_progress;
}

void end_abort(nccl::Communicator handle) {
    communicators().at(handle).reclaim(false);
    communicators().remove(handle);
}

nccl::Result submit(const char* call, Operation operation, nccl::Communicator handle,
                    cuda::Stream stream) {
    CommunicatorRecord& communicator = communicators().at(handle);
    const auto fate = Plan::get().enter(call);
    const auto refuse = [](nccl::Result result) {
        if (group.depth > 0) group.fault = result;
        return result;
    };
    if (fate.how == Plan::How::fails) return refuse(static_cast<nccl::Result>(fate.code));
    if (const auto busy = communicator.ready(); busy != nccl::success) return refuse(busy);
    if (current_device() != &communicator.device) misuse("NCCL is called with another device");
    const bool root_is_right = operation.peer >= 0 && operation.peer < communicator.size;
    if (bytes_of_type(operation.type) == 0 || !root_is_right) return refuse(invalid_argument);
    if (operation.op > 3) {
        const auto found = communicator.factors.find(operation.op);
        if (found == communicator.factors.end()) return refuse(invalid_argument);
        operation.factor = found->second;
        operation.op = 0;
    }
    operation.stream = stream_of(stream);
    if (operation.stream == nullptr) return refuse(invalid_argument);
    if (operation.stream->capture() != nullptr) return refuse(invalid_usage);
    if (group.depth == 0) {
        if (operation.count == 0) return nccl::success;
        return communicator.enqueue({operation}, fate);
    }
    if (group.communicator != nullptr && group.communicator != handle) {
        misuse("the stand-in's groups serve one communicator");
    }
    group.communicator = handle;
    if (fate.how != Plan::How::well) group.fate = fate;
    if (operation.count != 0) group.operations.push_back(operation);
    return nccl::success;
}

}  // namespace

extern "C" {

nccl::Result ncclGetVersion(int* version) {
    *version = static_cast<int>(Plan::get().setting("nccl"));
    return nccl::success;
}

const char* ncclGetErrorString(nccl::Result result) {
    constexpr const char* texts[] = {"no error",
                                     "unhandled cuda error",
                                     "unhandled system error",
                                     "internal error",
                                     "invalid argument",
                                     "invalid usage",
                                     "remote process exited or there was a network error",
                                     "NCCL operation in progress"};
    return result >= 0 && result < 8 ? texts[result] : "unknown result code";
}

const char* ncclGetLastError(nccl::Communicator) {
    return "";
}

nccl::Result ncclGetUniqueId(nccl::UniqueId* id) {
    if (const int code = Plan::get().code_of("ncclGetUniqueId")) {
        return static_cast<nccl::Result>(code);
    }
    const std::string path = make_segment();
    if (path.size() >= sizeof id->bytes) misuse("the path of TMPDIR is too long");
    std::memset(id->bytes, 0, sizeof id->bytes);
    std::memcpy(id->bytes, path.data(), path.size());
    return nccl::success;
}

nccl::Result ncclCommInitRankConfig(nccl::Communicator* handle, int size, nccl::UniqueId id,
                                    int rank, nccl::Config* config) {
    const auto fate = Plan::get().enter("ncclCommInitRankConfig");
    if (fate.how == Plan::How::fails) return static_cast<nccl::Result>(fate.code);
    if (config == nullptr || config->magic != 0xcafebeef || config->size < 24 ||
        (config->blocking != 0 && config->blocking != 1 && config->blocking != unset) || size < 1 ||
        size > most_ranks || rank < 0 || rank >= size) {
        return invalid_argument;
    }
    Device* const device = current_device();
    if (device == nullptr) return unhandled_cuda_error;
    const char* everywhere = std::getenv("NCCL_COMM_BLOCKING");
    const bool blocking =
        everywhere != nullptr ? std::strcmp(everywhere, "1") == 0 : config->blocking != 0;
    *handle =
        communicators().add(std::make_unique<CommunicatorRecord>(*device, rank, size, blocking));
    const std::string path(id.bytes, strnlen(id.bytes, sizeof id.bytes));
    return communicators().at(*handle).connect(path, fate);
}

nccl::Result ncclCommGetAsyncError(nccl::Communicator handle, nccl::Result* state) {
    if (const int code = Plan::get().code_of("ncclCommGetAsyncError")) {
        return static_cast<nccl::Result>(code);
    }
    *state = communicators().at(handle).state();
    return nccl::success;
}

nccl::Result ncclCommFinalize(nccl::Communicator handle) {
    const auto fate = Plan::get().enter("ncclCommFinalize");
    if (fate.how == Plan::How::fails) return static_cast<nccl::Result>(fate.code);
    CommunicatorRecord& communicator = communicators().at(handle);
    if (const auto busy = communicator.ready(); busy != nccl::success) return busy;
    return communicator.finalize(fate);
}

nccl::Result ncclCommDestroy(nccl::Communicator handle) {
    CommunicatorRecord& communicator = communicators().at(handle);
    if (communicator.ready() == invalid_argument) return invalid_argument;
    communicator.reclaim(true);
    communicators().remove(handle);
    const int code = Plan::get().code_of("ncclCommDestroy");
    return static_cast<nccl::Result>(code);
}

// In a group, all communicators are stopped before the first one is waited for.
nccl::Result ncclCommAbort(nccl::Communicator handle) {
    static_cast<void>(Plan::get().enter("ncclCommAbort"));
    communicators().at(handle).stop();
    if (group.depth == 0) {
        end_abort(handle);
    } else {
        group.aborted.push_back(handle);
    }
    return nccl::success;
}

nccl::Result ncclRedOpCreatePreMulSum(nccl::RedOp* op, void* scalar, nccl::DataType type,
                                      nccl::ScalarResidence residence, nccl::Communicator handle) {
    if (const int code = Plan::get().code_of("ncclRedOpCreatePreMulSum")) {
        return static_cast<nccl::Result>(code);
    }
    CommunicatorRecord& communicator = communicators().at(handle);
    if (const auto busy = communicator.ready(); busy != nccl::success) return busy;
    if (residence != nccl::scalar_on_host) misuse("the stand-in takes factors from the host only");
    std::array<std::byte, 8> factor{};
    std::memcpy(factor.data(), scalar, bytes_of_type(type));
    communicator.factors[communicator.next_factor] = factor;
    *op = static_cast<nccl::RedOp>(communicator.next_factor++);
    return nccl::success;
}

nccl::Result ncclRedOpDestroy(nccl::RedOp op, nccl::Communicator handle) {
    if (const int code = Plan::get().code_of("ncclRedOpDestroy")) {
        return static_cast<nccl::Result>(code);
    }
    return communicators().at(handle).factors.erase(op) == 1 ? nccl::success : invalid_argument;
}

nccl::Result ncclAllReduce(const void* send, void* recv, std::size_t count, nccl::DataType type,
                           nccl::RedOp op, nccl::Communicator communicator, cuda::Stream stream) {
    return submit("ncclAllReduce", {Kind::all_reduce, send, recv, count, type, op}, communicator,
                  stream);
}

nccl::Result ncclReduce(const void* send, void* recv, std::size_t count, nccl::DataType type,
                        nccl::RedOp op, int root, nccl::Communicator communicator,
                        cuda::Stream stream) {
    return submit("ncclReduce", {Kind::reduce, send, recv, count, type, op, root}, communicator,
                  stream);
}

nccl::Result ncclReduceScatter(const void* send, void* recv, std::size_t count, nccl::DataType type,
                               nccl::RedOp op, nccl::Communicator communicator,
                               cuda::Stream stream) {
    return submit("ncclReduceScatter", {Kind::reduce_scatter, send, recv, count, type, op},
                  communicator, stream);
}

nccl::Result ncclBroadcast(const void* send, void* recv, std::size_t count, nccl::DataType type,
                           int root, nccl::Communicator communicator, cuda::Stream stream) {
    return submit("ncclBroadcast", {Kind::broadcast, send, recv, count, type, 0, root},
                  communicator, stream);
}

nccl::Result ncclAllGather(const void* send, void* recv, std::size_t count, nccl::DataType type,
                           nccl::Communicator communicator, cuda::Stream stream) {
    return submit("ncclAllGather", {Kind::all_gather, send, recv, count, type}, communicator,
                  stream);
}

nccl::Result ncclSend(const void* buffer, std::size_t count, nccl::DataType type, int peer,
                      nccl::Communicator communicator, cuda::Stream stream) {
    return submit("ncclSend", {Kind::send, buffer, nullptr, count, type, 0, peer}, communicator,
                  stream);
}

nccl::Result ncclRecv(void* buffer, std::size_t count, nccl::DataType type, int peer,
                      nccl::Communicator communicator, cuda::Stream stream) {
    return submit("ncclRecv", {Kind::recv, nullptr, buffer, count, type, 0, peer}, communicator,
                  stream);
}

nccl::Result ncclGroupStart() {
    if (const int code = Plan::get().code_of("ncclGroupStart")) {
        return static_cast<nccl::Result>(code);
    }
    ++group.depth;
    return nccl::success;
}

nccl::Result ncclGroupEnd() {
    if (group.depth == 0) return invalid_usage;
    if (--group.depth > 0) return nccl::success;
    const Group made = std::exchange(group, Group());
    for (const nccl::Communicator aborted : made.aborted)
        end_abort(aborted);
    if (const int code = Plan::get().code_of("ncclGroupEnd")) {
        return static_cast<nccl::Result>(code);
    }
    if (is_fault(made.fault)) return made.fault;
    if (made.operations.empty()) return nccl::success;
    return communicators().at(made.communicator).enqueue(made.operations, made.fate);
}
}

// SPDX-License-Identifier: Apache-2.0
#include "gpu/nccl/library.hpp"

#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "core/environment.hpp"
#include "gpu/shared_library.hpp"

namespace mpi_bridge::nccl {
namespace {

constexpr const char* file_names[] = {"libnccl.so.2"};
constexpr const char* package_folders[] = {"nvidia/nccl/lib"};

constexpr LibraryRequest request{
    "NCCL", "MPI_BRIDGE_NCCL_LIBRARY", file_names, package_folders,
    "install NCCL 2.20 or newer (libnccl2 from NVIDIA, or nvidia-nccl-cu12 or -cu13 from PyPI)"};

Done bind_all(const SharedLibrary& file, Library& nccl) {
    Done done;
    const auto bind = [&](auto& function, const char* symbol) {
        if (done) done = file.bind(function, symbol);
    };
    bind(nccl.error_string, "ncclGetErrorString");
    bind(nccl.last_error, "ncclGetLastError");
    bind(nccl.unique_id, "ncclGetUniqueId");
    bind(nccl.init_rank, "ncclCommInitRankConfig");
    bind(nccl.async_error, "ncclCommGetAsyncError");
    bind(nccl.finalize, "ncclCommFinalize");
    bind(nccl.destroy, "ncclCommDestroy");
    bind(nccl.abort, "ncclCommAbort");
    bind(nccl.create_pre_mul_sum, "ncclRedOpCreatePreMulSum");
    bind(nccl.destroy_op, "ncclRedOpDestroy");
    bind(nccl.all_reduce, "ncclAllReduce");
    bind(nccl.reduce, "ncclReduce");
    bind(nccl.reduce_scatter, "ncclReduceScatter");
    bind(nccl.broadcast, "ncclBroadcast");
    bind(nccl.all_gather, "ncclAllGather");
    bind(nccl.send, "ncclSend");
    bind(nccl.recv, "ncclRecv");
    bind(nccl.group_start, "ncclGroupStart");
    bind(nccl.group_end, "ncclGroupEnd");
    return done;
}

Outcome<Library> load() {
    const auto file = TRY(SharedLibrary::open(request));
    Library nccl{};
    nccl.path = file.path();
    TRY(file.bind(nccl.get_version, "ncclGetVersion"));
    if (nccl.get_version(&nccl.version) != success || nccl.version < oldest_version) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("{} is NCCL {}, but {} or newer is needed; {}, or name it in {}",
                                nccl.path, version_text(nccl.version), version_text(oldest_version),
                                request.advice, request.override_variable));
    }
    TRY(bind_all(file, nccl));
    return nccl;
}

}  // namespace

std::string version_text(int version) {
    // Up to 2.8, the version number had one digit less for the minor version.
    const int major = version < 10000 ? version / 1000 : version / 10000;
    const int minor = version < 10000 ? version / 100 % 10 : version / 100 % 100;
    return fmt::format("{}.{}.{}", major, minor, version % 100);
}

std::string Library::describe(Result result, Communicator communicator) const {
    const char* note = last_error(communicator);
    std::string text = error_string(result);
    if (note != nullptr && *note != '\0') text += fmt::format(" ({})", note);
    return text;
}

Outcome<const Library*> library() {
    static std::mutex mutex;
    static std::optional<Library> loaded;
    const std::lock_guard lock(mutex);
    // A failure is not kept, because a framework may bring NCCL with it later.
    if (!loaded) loaded = TRY(load());
    return &*loaded;
}

int version_in_process() {
    if (process_environment(request.override_variable).value_or("").empty() &&
        !SharedLibrary::find_loaded(request)) {
        return 0;
    }
    const auto found = library();
    return found ? (*found)->version : 0;
}

}  // namespace mpi_bridge::nccl

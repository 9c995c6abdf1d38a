// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_settings.hpp"

#include <optional>
#include <string>

#include "core/settings.hpp"

namespace mpi_bridge {
namespace {

// The value of the first of the variables that is set.
Outcome<std::size_t> size_from(const Environment& environment,
                               std::initializer_list<const char*> names, std::size_t otherwise) {
    for (const char* name : names) {
        const auto text = environment(name);
        if (!text || text->empty()) continue;
        const auto bytes = parse_bytes(*text);
        if (bytes) return *bytes;
        return fail(MPIB_ERROR_INVALID_ARGUMENT,
                    std::string(name) + "=\"" + *text + "\" is not a number of bytes, such as 25M");
    }
    return otherwise;
}

Outcome<DevicePath> device_path(const Environment& environment) {
    const auto text = environment("MPI_BRIDGE_GPU_PATH");
    if (!text || text->empty() || *text == "auto") return DevicePath::automatic;
    if (*text == "nccl") return DevicePath::nccl;
    if (*text == "staged") return DevicePath::staged;
    if (*text == "ucx") return DevicePath::ucx;
    return fail(MPIB_ERROR_INVALID_ARGUMENT,
                "MPI_BRIDGE_GPU_PATH=\"" + *text + "\" is not auto, nccl, staged or ucx");
}

}  // namespace

Outcome<EngineSettings> engine_settings(const Environment& environment) {
    EngineSettings settings;
    const auto first =
        size_from(environment, {"MPI_BRIDGE_FIRST_BUCKET_BYTES"}, settings.first_bucket_bytes);
    if (!first) return tl::unexpected(first.error());
    const auto others =
        size_from(environment, {"MPI_BRIDGE_BUCKET_BYTES", "HOROVOD_FUSION_THRESHOLD"},
                  settings.bucket_bytes);
    if (!others) return tl::unexpected(others.error());
    auto stall = stall_settings(environment);
    if (!stall) return pass_on(std::move(stall));
    const auto path = device_path(environment);
    if (!path) return tl::unexpected(path.error());
    settings.device_path = *path;
    settings.first_bucket_bytes = *first;
    settings.bucket_bytes = *others;
    settings.stall = *stall;
    return settings;
}

}  // namespace mpi_bridge

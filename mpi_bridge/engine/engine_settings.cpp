// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_settings.hpp"

#include <optional>
#include <string>

#include "core/settings.hpp"

namespace mpi_bridge {
namespace {

// Reads the first of the variables that is set.
Outcome<std::size_t> size_from(const Environment& environment,
                               std::initializer_list<const char*> names, std::size_t otherwise) {
    for (const char* name : names) {
        const auto text = environment(name);
        if (!text || text->empty()) continue;
        const auto bytes = parse_bytes(*text);
        if (bytes) return *bytes;
        return invalid(std::string(name) + "=\"" + *text +
                       "\" is not a number of bytes, such as 25M");
    }
    return otherwise;
}

Outcome<DevicePath> device_path(const Environment& environment) {
    const auto text = environment("MPI_BRIDGE_GPU_PATH");
    if (!text || text->empty() || *text == "auto") return DevicePath::automatic;
    if (*text == "nccl") return DevicePath::nccl;
    // With "host", packages such as horovod.torch copy tensors to the host themselves.
    if (*text == "staged" || *text == "host") return DevicePath::staged;
    if (*text == "ucx") return DevicePath::ucx;
    return invalid("MPI_BRIDGE_GPU_PATH=\"" + *text + "\" is not auto, nccl, staged, host or ucx");
}

}  // namespace

Outcome<EngineSettings> engine_settings(const Environment& environment) {
    EngineSettings settings;
    const auto first =
        TRY(size_from(environment, {"MPI_BRIDGE_FIRST_BUCKET_BYTES"}, settings.first_bucket_bytes));
    const auto others =
        TRY(size_from(environment, {"MPI_BRIDGE_BUCKET_BYTES", "HOROVOD_FUSION_THRESHOLD"},
                      settings.bucket_bytes));
    const auto stall = TRY(stall_settings(environment));
    settings.device_path = TRY(device_path(environment));
    settings.first_bucket_bytes = first;
    settings.bucket_bytes = others;
    settings.stall = stall;
    return settings;
}

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

// Files that are embedded in the library.
namespace mpi_bridge {

// kernels.cu and the headers it includes, for NVRTC.
[[nodiscard]] std::string_view kernel_source();
[[nodiscard]] std::string_view kernel_codecs();
[[nodiscard]] std::string_view kernel_interface();

// kernels.cu as nvcc compiled it when the library was built; nullopt if no toolkit was found.
[[nodiscard]] std::optional<std::span<const char>> kernel_binary();

}  // namespace mpi_bridge

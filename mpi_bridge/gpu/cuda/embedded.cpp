// SPDX-License-Identifier: Apache-2.0
//
// CMake defines the paths of the files: MPI_BRIDGE_KERNEL_SOURCE, MPI_BRIDGE_KERNEL_CODECS,
// MPI_BRIDGE_KERNEL_INTERFACE and, if it found nvcc, MPI_BRIDGE_KERNEL_BINARY.
#include "gpu/cuda/embedded.hpp"

#include <cstddef>

// NOLINTBEGIN(bugprone-macro-parentheses): names and string literals.
#define MPIB_EMBED(name, path)                                                       \
    asm(".pushsection .rodata\n.balign 16\n" #name ":\n.incbin \"" path "\"\n" #name \
        "_end:\n.popsection\n");                                                     \
    extern "C" __attribute__((visibility("hidden"))) const char name[];              \
    extern "C" __attribute__((visibility("hidden"))) const char name##_end[];
// NOLINTEND(bugprone-macro-parentheses)

MPIB_EMBED(mpib_kernel_source, MPI_BRIDGE_KERNEL_SOURCE)
MPIB_EMBED(mpib_kernel_codecs, MPI_BRIDGE_KERNEL_CODECS)
MPIB_EMBED(mpib_kernel_interface, MPI_BRIDGE_KERNEL_INTERFACE)
#ifdef MPI_BRIDGE_KERNEL_BINARY
MPIB_EMBED(mpib_kernel_binary, MPI_BRIDGE_KERNEL_BINARY)
#endif

namespace mpi_bridge {
namespace {

std::size_t length(const char* begin, const char* end) {
    return static_cast<std::size_t>(end - begin);
}

}  // namespace

std::string_view kernel_source() {
    return {mpib_kernel_source, length(mpib_kernel_source, mpib_kernel_source_end)};
}

std::string_view kernel_codecs() {
    return {mpib_kernel_codecs, length(mpib_kernel_codecs, mpib_kernel_codecs_end)};
}

std::string_view kernel_interface() {
    return {mpib_kernel_interface, length(mpib_kernel_interface, mpib_kernel_interface_end)};
}

std::optional<std::span<const char>> kernel_binary() {
#ifdef MPI_BRIDGE_KERNEL_BINARY
    return std::span(mpib_kernel_binary, length(mpib_kernel_binary, mpib_kernel_binary_end));
#else
    return std::nullopt;
#endif
}

}  // namespace mpi_bridge

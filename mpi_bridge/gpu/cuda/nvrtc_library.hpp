// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/failure.hpp"

// The part of NVIDIA's run-time compiler that is used here, declared anew; see library.hpp.
namespace mpi_bridge::nvrtc {

using Result = int;  // 0 is success
using Program = struct ProgramRecord*;

struct Library {
    Result (*version)(int* major, int* minor);
    const char* (*error_string)(Result);
    Result (*create)(Program*, const char* source, const char* name, int headers,
                     const char* const* header_texts, const char* const* header_names);
    Result (*destroy)(Program*);
    Result (*compile)(Program, int options, const char* const* option_texts);
    Result (*log_size)(Program, std::size_t* bytes);
    Result (*log)(Program, char* text);
    Result (*binary_size)(Program, std::size_t* bytes);
    Result (*binary)(Program, char* image);

    std::string path;
};

// Loads the library at the first call; later calls return the same answer. Any thread may call it.
// MPI_BRIDGE_NVRTC_LIBRARY names a file to load instead of libnvrtc.so.13 or libnvrtc.so.12.
[[nodiscard]] Outcome<const Library*> library();

// Compiles the two kernels of one codec with NVRTC, for a compute capability such as 90, and
// returns the machine code. This takes some tenths of a second. The text of a failure contains the
// compiler's messages.
[[nodiscard]] Outcome<std::vector<char>> compile_codec(const Library& nvrtc, const char* codec,
                                                       int capability);

}  // namespace mpi_bridge::nvrtc

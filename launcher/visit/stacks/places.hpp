// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "visit/stacks/answer.hpp"

// Where a thread is, by its frames, of which the innermost is the first. Pure.
namespace batchai::visit {

// Returns the name of a file without its directory.
[[nodiscard]] std::string_view base_name(std::string_view path);

// Says where a thread of Python is: the innermost place in code of the user's own, as opposed to
// that of Python and of installed packages, and what is called there.
[[nodiscard]] std::string place_text(const std::vector<StackFrame>& frames);

// The same of C or C++. The user's own code is that of the program, or of a library with lines, and
// nothing within a call of communication. Empty if the program does not tell its functions.
[[nodiscard]] std::string native_place(const std::vector<StackFrame>& frames);

// Returns whether the thread is in a call in which ranks wait for each other: of mpi_bridge,
// Horovod, torch.distributed, mpi4py, MPI or NCCL. The frames of C count if there are none of
// Python.
[[nodiscard]] bool talks_to_others(const std::vector<StackFrame>& python,
                                   const std::vector<StackFrame>& native);

}  // namespace batchai::visit

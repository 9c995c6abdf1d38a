// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>
#include <vector>

#include "visit/stacks/answer.hpp"

// What Python's faulthandler writes of the thread that it runs in:
//
//     Stack (most recent call first):
//       File "/usr/lib/python3.11/threading.py", line 331 in wait
//       File "train.py", line 88 in step
//
// Python 3.14 adds the C stack.
namespace batchai::visit {

// Returns the frames, the innermost first; none for a thread that runs no Python code. Lines that
// are not understood are passed over.
[[nodiscard]] std::vector<StackFrame> frames_in_dump(std::string_view text);

}  // namespace batchai::visit

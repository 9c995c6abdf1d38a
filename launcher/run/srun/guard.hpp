// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::run {

// A shell script that does what `script` does, but only in the job's sandbox. The plugin sets
// BATCHAI_SANDBOX to the plan's digest in every task that it prepared. Without it a task would run
// on the bare host, with none of the job's mounts and outside its container: the script refuses
// that with exit code 97. It asks for no more than a POSIX shell, since an image need not have any
// other program.
[[nodiscard]] std::string guarded(std::string_view script);

}  // namespace batchai::run

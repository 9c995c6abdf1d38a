// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::run {

// Returns a shell script that does what `script` does, but only in the job's sandbox. The plugin
// sets BATCHAI_SANDBOX to the plan's digest in every task that it has prepared. Any other task
// would run on the bare host, without the job's mounts and outside its container, so the script
// refuses to run there and exits with code 97. It needs only a POSIX shell, because an image need
// not have any other program.
[[nodiscard]] std::string guarded(std::string_view script);

}  // namespace batchai::run

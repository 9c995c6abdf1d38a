// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/trace.hpp"

#include <array>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "record/job_files.hpp"

namespace batchai::node {

std::string node_name() {
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) != 0) return "unknown";
    const std::string full(host.data());
    return full.substr(0, full.find('.'));
}

Trace::Trace(const std::string& job_directory) {
    const record::JobFiles files(job_directory);
    if (base::make_directories(files.node_logs())) path_ = files.node_log(node_name());
}

void Trace::line(std::string_view text) const {
    if (path_.empty()) return;
    const base::FileDescriptor file(
        open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file.valid()) return;
    // One write, so that lines of steps that run at the same time do not mix.
    const std::string stamped = fmt::format("{} {}\n", base::to_iso8601(base::now()), text);
    if (write(file.get(), stamped.data(), stamped.size()) < 0) {
        // Best effort.
    }
}

}  // namespace batchai::node

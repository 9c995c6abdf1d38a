// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/native/permission.hpp"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "node/stacks/proc_text.hpp"
#include "node/usage/processes.hpp"

namespace batchai::node {

std::string reason_of_refusal(std::string_view scope, pid_t tracer) {
    if (tracer != 0) return fmt::format("process {}, such as a debugger, traces it", tracer);
    if (scope == "3") return "nobody may trace processes there (kernel.yama.ptrace_scope is 3)";
    if (scope == "1" || scope == "2")
        return fmt::format(
            "kernel.yama.ptrace_scope is {} there, and it is not in the namespaces of the job",
            scope);
    return "it forbids that (PR_SET_DUMPABLE), or a security module of the node does";
}

std::string why_not_allowed(pid_t process) {
    const int error = errno;
    if (error == ENOENT || error == ESRCH) return "it has ended";
    if (error != EPERM && error != EACCES) return std::generic_category().message(error);
    const auto scope = base::read_file("/proc/sys/kernel/yama/ptrace_scope").value_or("");
    const std::string status = proc_text(process, "status");
    return reason_of_refusal(base::trim(scope),
                             static_cast<pid_t>(number_of_line(status, "TracerPid")));
}

}  // namespace batchai::node

// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/reply.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "node/node_name.hpp"
#include "record/job_files.hpp"
#include "spank/protocol.h"

namespace batchai::node {

Trace::Trace(const std::string& job_directory) {
    const record::JobFiles files(job_directory);
    if (base::make_directories(files.node_logs())) path_ = files.node_log(node_name());
}

void Trace::line(std::string_view text) const {
    if (path_.empty()) return;
    const base::FileDescriptor file(
        open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file.valid()) return;
    // The line is written by a single call, so that the lines of concurrent steps do not mix.
    const std::string stamped = fmt::format("{} {}\n", base::to_iso8601(base::now()), text);
    if (write(file.get(), stamped.data(), stamped.size()) < 0) {
        // Best effort.
    }
}

namespace {

std::string with_header(batchai_status status, const std::string& text,
                        const std::string& environment, std::uint32_t flags = 0) {
    batchai_reply_header header{};
    header.magic = BATCHAI_PROTOCOL_MAGIC;
    header.version = BATCHAI_PROTOCOL_VERSION;
    header.status = status;
    header.flags = flags;
    header.text_length = static_cast<std::uint32_t>(text.size());
    header.environment_length = static_cast<std::uint32_t>(environment.size());
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + text + environment;
}

}  // namespace

std::string success_reply(const SuccessReply& reply) {
    std::string block;
    for (const std::string& name : reply.unset)
        block += name + '\0';
    for (const plan::Variable& variable : reply.environment)
        block += variable.name + '=' + variable.value + '\0';
    return with_header(BATCHAI_STATUS_OK, reply.working_directory, block,
                       reply.one_id ? BATCHAI_REPLY_ONE_ID : 0U);
}

std::string failure_reply(const base::Error& error) {
    // The text is cut far below BATCHAI_REPLY_LIMIT, because batchai.so refuses a longer reply.
    return with_header(BATCHAI_STATUS_FAILED, error.text().substr(0, 65536), {});
}

base::Result<void> check_environment(const std::vector<plan::Variable>& environment) {
    std::size_t total = sizeof(batchai_reply_header);
    for (const plan::Variable& variable : environment) {
        total += variable.name.size() + variable.value.size() + 2;
        if (variable.name.empty() || variable.name.find('=') != std::string::npos ||
            variable.name.find('\0') != std::string::npos)
            return base::fail(
                fmt::format("\"{}\" cannot be the name of a variable", variable.name));
        if (variable.value.find('\0') != std::string::npos)
            return base::fail(
                fmt::format("the value of the variable {} has a zero byte", variable.name));
    }
    if (total <= BATCHAI_REPLY_LIMIT) return {};
    return base::fail(fmt::format("the job's variables take {} bytes; at most {} can be handed on",
                                  total, BATCHAI_REPLY_LIMIT),
                      {}, "put long values into a file on a mounted directory");
}

}  // namespace batchai::node

// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/reply.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "spank/protocol.h"

namespace batchai::spank {

namespace {

// Splits the block into entries, each of which ends with a zero byte. Returns false if the last
// zero byte is missing or an entry has no name.
bool split_environment(std::string_view block, std::vector<std::string>& entries) {
    while (!block.empty()) {
        const std::size_t end = block.find('\0');
        if (end == std::string_view::npos) return false;
        const std::string_view entry = block.substr(0, end);
        if (entry.empty() || entry.front() == '=') return false;
        entries.emplace_back(entry);
        block.remove_prefix(end + 1);
    }
    return true;
}

}  // namespace

std::optional<Reply> parse_reply(std::string_view bytes) {
    batchai_reply_header header{};
    if (bytes.size() < sizeof header || bytes.size() > BATCHAI_REPLY_LIMIT) return std::nullopt;
    memcpy(&header, bytes.data(), sizeof header);
    bytes.remove_prefix(sizeof header);
    if (header.magic != BATCHAI_PROTOCOL_MAGIC || header.version != BATCHAI_PROTOCOL_VERSION)
        return std::nullopt;
    const std::size_t length = std::size_t{header.text_length} + header.environment_length;
    if (length != bytes.size()) return std::nullopt;
    Reply reply;
    reply.ok = header.status == BATCHAI_STATUS_OK;
    reply.one_id = (header.flags & BATCHAI_REPLY_ONE_ID) != 0;
    reply.text = bytes.substr(0, header.text_length);
    if (!split_environment(bytes.substr(header.text_length), reply.environment))
        return std::nullopt;
    return reply;
}

std::string read_reply(int descriptor) {
    std::string bytes;
    std::array<char, 16384> chunk{};
    while (bytes.size() <= BATCHAI_REPLY_LIMIT) {
        // pread(2), because all tasks share the descriptor's offset.
        const ssize_t count =
            pread(descriptor, chunk.data(), chunk.size(), static_cast<off_t>(bytes.size()));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        bytes.append(chunk.data(), static_cast<std::size_t>(count));
    }
    return bytes;
}

}  // namespace batchai::spank

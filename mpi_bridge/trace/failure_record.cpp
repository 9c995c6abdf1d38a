// SPDX-License-Identifier: Apache-2.0
#include "trace/failure_record.hpp"

#include <cstdio>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

#include "core/file_descriptor.hpp"
#include "trace/utf8.hpp"

namespace mpi_bridge {
namespace {

constexpr std::string_view schema = "mpi_bridge-failure/v1";

std::optional<std::string> path_of(const Environment& environment, int rank) {
    const auto path = environment("MPI_BRIDGE_FAILURE_RECORD");
    if (!path || path->empty()) return std::nullopt;
    return *path + "." + std::to_string(rank) + ".json";
}

void record(const Environment& environment, int rank, std::string_view cause,
            std::string_view text) {
    if (const auto path = path_of(environment, rank))
        write_record(*path, {{"schema", schema}, {"cause", cause}, {"text", text}});
}

}  // namespace

void write_record(const std::string& path,
                  const std::vector<std::pair<std::string_view, std::string_view>>& members) {
    std::string text;
    for (const auto& [key, value] : members) {
        text += text.empty() ? "{" : ", ";
        append_json_string(text, key);
        text += ": ";
        append_json_string(text, value);
    }
    text += "}\n";
    const FileDescriptor file(
        open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file && write(file.number(), text.data(), text.size()) < 0) {
        // There is no other way to report this.
    }
}

void record_failure(const Environment& environment, int rank, const Failure& failure) {
    record(environment, rank, failure.status == MPIB_ERROR_PEER_LOST ? "peerLost" : "other",
           failure.text);
}

void record_abort(const Environment& environment, int rank, std::string_view message) {
    record(environment, rank, "aborted", message);
}

void forget_failure(const Environment& environment, int rank) {
    if (const auto path = path_of(environment, rank)) unlink(path->c_str());
}

}  // namespace mpi_bridge

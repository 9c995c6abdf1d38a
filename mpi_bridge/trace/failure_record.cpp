// SPDX-License-Identifier: Apache-2.0
#include "trace/failure_record.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>

#include <unistd.h>

#include "core/bounded_call.hpp"
#include "trace/record_file.hpp"

namespace mpi_bridge {
namespace {

constexpr std::string_view schema = "mpi_bridge-failure/v1";

std::optional<std::string> path_of(const Environment& environment, int rank) {
    const auto path = environment("MPI_BRIDGE_FAILURE_RECORD");
    if (!path || path->empty()) return std::nullopt;
    const auto first = environment("MPI_BRIDGE_FAILURE_RECORD_RANK");
    return *path + "." + first.value_or(std::to_string(rank)) + ".json";
}

// The record that is to be there in the end. Those before it may still be on their way to a file
// system that hangs.
struct Latest {
    std::mutex mutex;  // of the thread that writes
    std::atomic<unsigned> number{0};
};

Latest& latest() {
    static Latest& the_latest = *new Latest;  // for threads that outlive static objects
    return the_latest;
}

void write_if_latest(unsigned number, const std::string& path, std::string_view cause,
                     std::string_view text) {
    const std::lock_guard one_at_a_time(latest().mutex);
    if (latest().number != number) return;
    write_record(path, {{"schema", schema}, {"cause", cause}, {"text", text}});
    if (latest().number != number) unlink(path.c_str());
}

// A thread of its own writes the record, and goes on alone if that takes longer than `patience`.
void record(const Environment& environment, int rank, std::string_view cause, std::string_view text,
            Seconds patience) {
    const auto path = path_of(environment, rank);
    if (!path) return;
    const auto write = [number = ++latest().number, path = *path, cause = std::string(cause),
                        text = std::string(text)] { write_if_latest(number, path, cause, text); };
    try {
        (void)run_within(Deadline::in(patience), write);
    } catch (const std::system_error&) {
        write();
    }
}

}  // namespace

void record_failure(const Environment& environment, int rank, const Failure& failure) {
    // Those who wait for a lost rank learn of it after this.
    constexpr Seconds patience{0.5};
    record(environment, rank, failure.status == MPIB_ERROR_PEER_LOST ? "peerLost" : "other",
           failure.text, patience);
}

void record_abort(const Environment& environment, int rank, std::string_view message) {
    // The process ends after this, and with it the thread that writes.
    constexpr Seconds patience{5};
    record(environment, rank, "aborted", message, patience);
}

void forget_failure(const Environment& environment, int rank) {
    ++latest().number;
    if (const auto path = path_of(environment, rank)) unlink(path->c_str());
}

}  // namespace mpi_bridge

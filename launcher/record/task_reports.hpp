// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>

// What our own programs in the tasks of a step report to `batchai run`. Each task writes to a file
// of its own, named PATH.TASK and an ending, where PATH comes from JobFiles. What the programs
// print is for people. A report that is missing or damaged counts as none.
namespace batchai::record {

// From the plugin: why it did not let the task run.
[[nodiscard]] std::optional<std::string> refusal(const std::filesystem::path& path, int task);

// From libmpi_bridge, which knows nothing of batchai (mpi_bridge/trace/failure_record.hpp).
enum class RankFailureCause {
    peer_lost,  // the failure only follows from the end of another rank
    aborted,    // the rank ended the step itself
    other
};
struct RankFailure {
    RankFailureCause cause = RankFailureCause::other;
    std::string text;
};
[[nodiscard]] std::optional<RankFailure> rank_failure(const std::filesystem::path& path, int task);

// From the wire-up check, or from the shell that starts it in a container.
struct WireUpReport {
    std::string fault;             // empty: the check could not be started
    std::optional<int> exit_code;  // of the check, as the shell saw it, if `fault` is empty
    std::string library;           // the file of the PMIx library in use
    std::string server;            // the version of Slurm's PMIx
};
[[nodiscard]] std::optional<WireUpReport> wire_up_report(const std::filesystem::path& path,
                                                         int task);
// Says why the container does not have the check.
[[nodiscard]] std::optional<std::string> why_no_wire_up(const std::filesystem::path& path,
                                                        int task);
// Returns the manifest of the bundle that the container can see, unchanged.
[[nodiscard]] std::optional<std::string> bundle_in_use(const std::filesystem::path& path, int task);

// Removes all reports of that path, so that any report found later is from the step that follows.
void forget_reports(const std::filesystem::path& path);

}  // namespace batchai::record

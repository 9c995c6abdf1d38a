// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>

// What our own programs in the tasks of a step report to `batchai run`, each to a file of its own:
// PATH.TASK and an ending, where the paths are JobFiles'. What they print is for people. A report
// that is missing or damaged is none.
namespace batchai::record {

// From the plugin: why it did not let the task run.
[[nodiscard]] std::optional<std::string> refusal(const std::filesystem::path& path, int task);

// From libmpi_bridge, which does not know us (mpi_bridge/trace/failure_record.hpp).
enum class RankFailureCause {
    peer_lost,  // it only follows from the end of another rank
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
    std::optional<int> exit_code;  // with which the shell saw it end then
    std::string library;           // the file of the PMIx library in use
    std::string server;            // the version of Slurm's PMIx
};
[[nodiscard]] std::optional<WireUpReport> wire_up_report(const std::filesystem::path& path,
                                                         int task);
// Why the container does not have the check.
[[nodiscard]] std::optional<std::string> why_no_wire_up(const std::filesystem::path& path,
                                                        int task);
// The manifest of the bundle that a container shows, as it is.
[[nodiscard]] std::optional<std::string> bundle_in_use(const std::filesystem::path& path, int task);

// Removes all reports of that path, so that the ones found later are of the step that follows.
void forget_reports(const std::filesystem::path& path);

}  // namespace batchai::record

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/record.hpp"

// What our own programs in the tasks of a step report to `batchai run`. Each task writes to a file
// of its own, named PATH.TASK with an ending, where PATH comes from JobFiles. These files are
// separate from what the programs print, which is for people. A missing or damaged report counts as
// no report, and only rank_failure() says why there is none.
namespace batchai::record {

// The file of a task: "PATH.TASK.ENDING".
[[nodiscard]] std::string task_file(const std::filesystem::path& path, int task,
                                    std::string_view ending);

// Returns why the plugin did not let the task run, if it has reported that.
[[nodiscard]] std::optional<std::string> refusal(const std::filesystem::path& path, int task);

// From libmpi_bridge, which knows nothing of batchai (mpi_bridge/trace/failure_record.hpp).
enum class RankFailureCause {
    peer_lost,  // the failure only follows from the end of another rank
    aborted,    // the rank ended the step itself
    other
};
constexpr auto json_words(RankFailureCause /*type*/) {
    return std::array{std::pair{std::string_view("peerLost"), RankFailureCause::peer_lost},
                      std::pair{std::string_view("aborted"), RankFailureCause::aborted},
                      std::pair{std::string_view("other"), RankFailureCause::other}};
}
struct RankFailure {
    RankFailureCause cause = RankFailureCause::other;
    std::string text;

    static constexpr auto fields(auto field) {
        return std::tuple{field("cause", &RankFailure::cause), field("text", &RankFailure::text)};
    }
};
// An error names the file and says what is wrong with it; not_found means that it is missing.
[[nodiscard]] base::Result<RankFailure> rank_failure(const std::filesystem::path& path, int task);

// From the wire-up check, or from the shell that starts it in a container.
struct WireUpReport {
    std::string fault;             // empty: the check could not be started
    std::optional<int> exit_code;  // of the check, as the shell saw it, if `fault` is empty
    std::string library;           // the file of the PMIx library in use
    std::string server;            // the version of Slurm's PMIx

    static constexpr auto fields(auto field) {
        return std::tuple{field("fault", &WireUpReport::fault).or_missing(),
                          field("exitCode", &WireUpReport::exit_code).or_missing(),
                          field("library", &WireUpReport::library).or_missing(),
                          field("server", &WireUpReport::server)};
    }
};
[[nodiscard]] std::optional<WireUpReport> wire_up_report(const std::filesystem::path& path,
                                                         int task);
// From the check of the GPUs, one task for each node.
struct GpuReport {
    std::string fault;   // empty: all GPUs of the node can be used
    std::string gpus;    // how many there are
    std::string driver;  // its version; empty: unknown
    std::string slow;    // which GPU is slow, in words; empty: none
    std::string direct;  // what is wrong with copies between two of them, in words; empty: nothing
    std::string host;    // how fast they copy from the host and back, in bytes per second
    std::string peers;   // how fast they copy to each other; "0" and "": not known
    std::string nccl;    // what is wrong with an allreduce over NCCL, in words; empty: nothing
    std::string allreduce;       // how fast that is, in bytes per second; empty: not known
    std::string nccl_unchecked;  // why no allreduce was tried, in words

    static constexpr auto fields(auto field) {
        return std::tuple{field("fault", &GpuReport::fault),
                          field("gpus", &GpuReport::gpus),
                          field("driver", &GpuReport::driver),
                          field("slow", &GpuReport::slow),
                          field("direct", &GpuReport::direct),
                          field("host", &GpuReport::host),
                          field("peers", &GpuReport::peers),
                          field("nccl", &GpuReport::nccl),
                          field("allreduce", &GpuReport::allreduce),
                          field("ncclUnchecked", &GpuReport::nccl_unchecked)};
    }
};
[[nodiscard]] std::optional<GpuReport> gpu_report(const std::filesystem::path& path, int task);

// From the check of the links between nodes, one task for each node.
struct LinkReport {
    std::string fault;  // empty: the node has exchanged data with all others, and it was right
    std::string peer;   // the task with which the fault was found; empty: with none
    // In which round data did not come, whereupon the task has stopped; empty: in none.
    std::string lost_in_round;
    std::string links;  // "PEER BYTES_PER_SECOND NANOSECONDS" of each, with a blank between

    static constexpr auto fields(auto field) {
        return std::tuple{field("fault", &LinkReport::fault), field("peer", &LinkReport::peer),
                          field("lostInRound", &LinkReport::lost_in_round),
                          field("links", &LinkReport::links)};
    }
};
[[nodiscard]] std::optional<LinkReport> link_report(const std::filesystem::path& path, int task);

// From the site's checks of a node.
enum class HealthOutcome {
    ok,
    warning,
    failed,
    unknown,  // the check could not be run
};
constexpr auto json_words(HealthOutcome /*type*/) {
    return std::array{std::pair{std::string_view("ok"), HealthOutcome::ok},
                      std::pair{std::string_view("warning"), HealthOutcome::warning},
                      std::pair{std::string_view("failed"), HealthOutcome::failed},
                      std::pair{std::string_view("unknown"), HealthOutcome::unknown}};
}
struct HealthCheck {
    std::string name;  // of the program
    HealthOutcome outcome = HealthOutcome::unknown;
    std::optional<int> exit_code{};
    std::string line{};  // the first that it has printed, or why it could not be run
    int milliseconds = 0;

    static constexpr auto fields(auto field) {
        return std::tuple{
            field("name", &HealthCheck::name), field("outcome", &HealthCheck::outcome),
            field("exitCode", &HealthCheck::exit_code), field("line", &HealthCheck::line),
            field("milliseconds", &HealthCheck::milliseconds).within(0)};
    }
};
struct HealthReport {
    std::string refused{};  // why none of the directory's programs was run; empty: they were run
    std::vector<HealthCheck> checks{};

    static constexpr auto fields(auto field) {
        return std::tuple{field("refused", &HealthReport::refused),
                          field("checks", &HealthReport::checks)};
    }
};
[[nodiscard]] std::optional<HealthReport> health_report(const std::filesystem::path& path,
                                                        int task);
[[nodiscard]] base::Result<void> write_health_report(const std::filesystem::path& path, int task,
                                                     const HealthReport& report);

// Says why the container does not have the check.
[[nodiscard]] std::optional<std::string> why_no_wire_up(const std::filesystem::path& path,
                                                        int task);
// Returns the manifest of the bundle that the container can see, unchanged.
[[nodiscard]] std::optional<std::string> bundle_in_use(const std::filesystem::path& path, int task);

// Removes all reports of that path, so that any report found later is from the step that follows.
void forget_reports(const std::filesystem::path& path);

}  // namespace batchai::record

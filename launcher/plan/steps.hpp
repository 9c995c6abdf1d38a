// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/record.hpp"

// What a job runs on its nodes, and what is done around that.
namespace batchai::plan {

enum class StepKind {
    preparation,  // once per node, before any rank
    ranks,        // processes on all nodes, connected by PMIx
    master,       // one process on the first node (customToolkitSettings)
    // One process on each of the first nodes, beside the ranks (tensorFlowSettings). These
    // processes do not end by themselves: they are ended after the ranks.
    parameter_servers,
};
constexpr auto json_words(StepKind /*type*/) {
    return std::array{std::pair{std::string_view("preparation"), StepKind::preparation},
                      std::pair{std::string_view("ranks"), StepKind::ranks},
                      std::pair{std::string_view("master"), StepKind::master},
                      std::pair{std::string_view("parameterServers"), StepKind::parameter_servers}};
}

// One call of srun. `command` is the user's text with shell semantics and becomes one argument of
// `/bin/bash -c`. Everything that the launcher adds to that text is quoted.
struct Step {
    StepKind kind = StepKind::ranks;
    std::string command;
    int processes = 1;
    int processes_per_node = 1;
    bool pmix = false;
    // File names below stdouterr. "%N" stands for the node's name (one file per node), and "%t" for
    // the number of the process (one file per rank).
    std::string stdout_name;
    std::string stderr_name;
    // What the ranks are written with says itself if they do not find each other.
    bool tells_bad_wiring = false;

    bool operator==(const Step&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("kind", &Step::kind),
                          field("command", &Step::command),
                          field("processes", &Step::processes).within(1),
                          field("processesPerNode", &Step::processes_per_node).within(1),
                          field("pmix", &Step::pmix),
                          field("stdoutName", &Step::stdout_name),
                          field("stderrName", &Step::stderr_name),
                          field("tellsBadWiring", &Step::tells_bad_wiring).or_missing()};
    }
};

// The setup task of the job's cluster, which each node does once after it has started.
struct NodeSetup {
    std::string command;  // for a shell
    // Names the marker on the node. It depends on the task, so a changed task is done again.
    std::string key;
    std::string log_directory;  // host path; empty: the logs are among the job's

    bool operator==(const NodeSetup&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("command", &NodeSetup::command), field("key", &NodeSetup::key),
                          field("logDirectory", &NodeSetup::log_directory)};
    }
};

// The site's checks of the job's nodes, before the preparation.
struct HealthChecks {
    std::string directory;  // of the programs, on each node
    int time_limit = 30;    // for each, in seconds
    int total_time_limit = 120;
    int retries = 2;  // how often the job is queued again when a node fails

    bool operator==(const HealthChecks&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("directory", &HealthChecks::directory),
                          field("timeLimit", &HealthChecks::time_limit).within(1),
                          field("totalTimeLimit", &HealthChecks::total_time_limit).within(1),
                          field("retries", &HealthChecks::retries).within(0)};
    }
};

// Software of the nodes, or of the container, that each node sets up for the job's processes.
struct Software {
    std::vector<std::string> modules;       // in the order in which they are loaded
    std::vector<std::string> module_paths;  // searched before others
    bool purge = false;                     // unloads first what is loaded
    // At most one of these four is set. Paths are as the job sees them.
    std::string conda_environment;  // a name
    std::string conda_prefix;
    std::string venv;
    std::string uv_project;
    std::vector<std::string> uv_extras;
    std::vector<std::string> uv_groups;
    std::string python = "python3";  // whose version is recorded: what the ranks run
    int seconds = 600;               // limit for all of it

    bool operator==(const Software&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("modules", &Software::modules),
                          field("modulePaths", &Software::module_paths),
                          field("purge", &Software::purge),
                          field("condaEnvironment", &Software::conda_environment),
                          field("condaPrefix", &Software::conda_prefix),
                          field("venv", &Software::venv),
                          field("uvProject", &Software::uv_project),
                          field("uvExtras", &Software::uv_extras),
                          field("uvGroups", &Software::uv_groups),
                          field("python", &Software::python),
                          field("seconds", &Software::seconds).within(1)};
    }
};

// A copy of a directory, made when the job is submitted (launcher/snapshot).
struct Snapshot {
    std::string source;                // on the host that submits the job
    std::string directory;             // host path of the copy
    std::string working_directory;     // of the job's processes, in the copy; empty: Slurm's
    std::vector<std::string> exclude;  // patterns of what is not copied
    std::int64_t max_bytes = 0;
    std::int64_t max_files = 0;

    bool operator==(const Snapshot&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("source", &Snapshot::source),
                          field("directory", &Snapshot::directory),
                          field("workingDirectory", &Snapshot::working_directory),
                          field("exclude", &Snapshot::exclude),
                          field("maxBytes", &Snapshot::max_bytes).within(0),
                          field("maxFiles", &Snapshot::max_files).within(0)};
    }
};

// When the job is run again after a failure.
struct Retry {
    std::vector<std::string> on;  // words of job::retry_causes, and exit codes: "75", "130-140"
    int max = 3;                  // how often, at most
    bool exclude_failed_nodes = false;
    bool in_allocation = false;  // the ranks start again at once where they are, if they can
    // Host path in which the job makes progress; empty: nobody looks.
    std::string progress_directory;
    int attempts_without_progress = 2;

    bool operator==(const Retry&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{
            field("on", &Retry::on),
            field("max", &Retry::max).within(1),
            field("excludeFailedNodes", &Retry::exclude_failed_nodes),
            field("inAllocation", &Retry::in_allocation).or_missing(),
            field("progressDirectory", &Retry::progress_directory),
            field("attemptsWithoutProgress", &Retry::attempts_without_progress).within(1)};
    }
};

// Slurm sends this signal to the batch script, which is `batchai run`, when it is time. It is one
// that programs ignore unless they know better.
inline constexpr int checkpoint_notice = SIGURG;

// The signal that the ranks get before the time limit, and when the job is pre-empted.
struct Checkpoint {
    int signal = 0;
    int seconds_before = 0;

    bool operator==(const Checkpoint&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("signal", &Checkpoint::signal).within(1, 64),
                          field("secondsBefore", &Checkpoint::seconds_before).within(1)};
    }
};

// When the ranks stand still, and what is done then. Times are in seconds; 0: not watched.
struct Watch {
    int silence = 0;
    std::string pattern;  // of the lines of progress; empty: not watched
    int within = 0;       // between two such lines
    int first = 0;        // until the first one
    int idle_gpu = 0;
    int slow_percent = 0;  // of what the others need between collectives; 0: not watched
    int slow_over = 0;     // for which a rank must be that slow
    bool ends = false;     // the ranks are ended

    bool operator==(const Watch&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("silence", &Watch::silence).within(0),
                          field("pattern", &Watch::pattern),
                          field("within", &Watch::within).within(0),
                          field("first", &Watch::first).within(0),
                          field("idleGpu", &Watch::idle_gpu).within(0),
                          field("slowPercent", &Watch::slow_percent).within(0),
                          field("slowOver", &Watch::slow_over).within(0),
                          field("ends", &Watch::ends)};
    }
};

// Is told of the job's end.
struct Webhook {
    std::string secret_name;  // entry of "secrets.json" that has the URL
    bool text_only = false;
    bool only_failures = false;
    bool over_http = false;  // the site allows a URL without TLS

    bool operator==(const Webhook&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{
            field("secretName", &Webhook::secret_name), field("textOnly", &Webhook::text_only),
            field("onlyFailures", &Webhook::only_failures), field("overHttp", &Webhook::over_http)};
    }
};

// What a plan says of its sweep. The points themselves are in a file of their own, because every
// process of a job reads the plan.
struct SweepPoints {
    std::vector<std::string> parameters;
    int count = 1;
    std::string digest;  // SHA-256 of the file with the points

    bool operator==(const SweepPoints&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("parameters", &SweepPoints::parameters),
                          field("count", &SweepPoints::count).within(1),
                          field("digest", &SweepPoints::digest)};
    }
};

}  // namespace batchai::plan

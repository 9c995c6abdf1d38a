// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/record.hpp"
#include "record/job_files.hpp"

// A job's "software": what setting it up on a node has reported, and what the processes of the job
// get there.
namespace batchai::record {

// What is in use on the first node, for the attempt's record.
struct Software {
    std::vector<std::string> modules;  // with versions
    std::string python;                // the path of the interpreter; empty: there is none
    std::string python_version;
    std::string conda;                 // the environment's directory
    std::string venv;                  // the same
    std::string uv_lock;               // SHA-256 of the project's uv.lock
    std::vector<std::string> remarks;  // what is different on other nodes

    bool operator==(const Software&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("modules", &Software::modules),
                          field("python", &Software::python),
                          field("pythonVersion", &Software::python_version),
                          field("conda", &Software::conda),
                          field("venv", &Software::venv),
                          field("uvLock", &Software::uv_lock),
                          field("remarks", &Software::remarks)};
    }
};

// The report of a task that has set the software up (run/phases/software.sh).
struct SoftwareReport {
    std::string fault;             // empty: it is set up
    std::vector<std::string> log;  // lines that the tools have printed, the last ones
    base::Environment changes;     // "NAME=value", or "NAME" for a variable that is gone
    Software facts;
};

// Returns nothing if the task has reported neither a success nor a failure. A report that is too
// large, or has a name that a variable cannot have, is a fault.
[[nodiscard]] std::optional<SoftwareReport> software_report(const std::filesystem::path& path,
                                                            int task);

// Keeps the changes for every later step on the node, in a file that only the user can read.
[[nodiscard]] base::Result<void> write_node_software(const JobFiles& files, std::string_view node,
                                                     const std::string& slurm_job_id,
                                                     const base::Environment& changes);
// Returns the changes; nothing if this Slurm job has set none up on the node.
[[nodiscard]] base::Result<std::optional<base::Environment>> read_node_software(
    const JobFiles& files, std::string_view node, const std::string& slurm_job_id);
// Removes those of an earlier attempt.
void forget_node_software(const JobFiles& files, std::string_view node);

}  // namespace batchai::record

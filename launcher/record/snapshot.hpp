// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/record.hpp"
#include "record/job_files.hpp"

// What a job's snapshot was made of. It is written when the job is submitted.
namespace batchai::record {

struct Snapshot {
    std::string source;     // the directory that was copied
    std::string directory;  // the copy
    std::int64_t files = 0;
    std::int64_t bytes = 0;
    // If the directory was in a work tree of git: its commit, which is empty if there was none; the
    // branch; the URL of its remote; and whether anything differed from the commit.
    std::optional<std::string> commit{};
    std::optional<std::string> branch{};
    std::optional<std::string> remote{};
    std::optional<bool> dirty{};

    bool operator==(const Snapshot&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{
            field("source", &Snapshot::source),         field("directory", &Snapshot::directory),
            field("files", &Snapshot::files).within(0), field("bytes", &Snapshot::bytes).within(0),
            field("commit", &Snapshot::commit),         field("branch", &Snapshot::branch),
            field("remote", &Snapshot::remote),         field("dirty", &Snapshot::dirty)};
    }
};

[[nodiscard]] base::Result<void> write_snapshot(const JobFiles& files, const Snapshot& snapshot);

// Returns nothing if the job has no snapshot.
[[nodiscard]] base::Result<std::optional<Snapshot>> read_snapshot(const JobFiles& files);

[[nodiscard]] base::Value to_value(const Snapshot& snapshot);

}  // namespace batchai::record

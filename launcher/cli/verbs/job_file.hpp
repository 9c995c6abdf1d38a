// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "cli/outcome.hpp"
#include "cli/report/names.hpp"
#include "store/records.hpp"

namespace batchai::cli {

struct JobFileListOptions {
    std::string job;
    ParentOptions parents;
    std::string directory_id = "stdouterr";  // or the id of an output directory
    std::string path = ".";                  // below it
    int expiry = 60;                         // of a URL, in minutes; a file:// URL has no end
    std::string file_name;                   // of stream

    [[nodiscard]] store::JobKey key() const {
        const auto parent = experiment_key(parents);
        return {parent.group, parent.workspace, parent.experiment, job};
    }
};

[[nodiscard]] Answer job_file_list(const JobFileListOptions& options);
// Copies the file to standard output as it grows, until the job has ended.
[[nodiscard]] Answer job_file_stream(const JobFileListOptions& options);

}  // namespace batchai::cli

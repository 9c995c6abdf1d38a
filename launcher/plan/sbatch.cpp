// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "plan/make.hpp"
#include "plan/quote.hpp"
#include "plan/slurm_options.hpp"
#include "record/job_files.hpp"

namespace batchai::plan {

namespace {

// Safe inside one comment line of a script.
std::string comment_text(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7F) c = '?';
    }
    return out;
}

// A path in which sbatch replaces nothing.
std::string literal_pattern(std::string_view path) {
    std::string out;
    for (const char c : path) {
        out += c;
        if (c == '%') out += c;
    }
    return out;
}

}  // namespace

std::string plan_path(const Plan& plan) {
    return record::JobFiles(plan.directories.plan_directory).plan().string();
}

std::string batch_script(const Plan& plan, const std::string& launcher,
                         const std::string& plan_digest) {
    return fmt::format(
        "#!/bin/bash\n"
        "# Batch AI job {}\n"
        "# {}\n"
        "exec {} run --plan {} --digest {}\n",
        comment_text(plan.identity.job), comment_text(plan.identity.path_segment()),
        single_quoted(launcher), single_quoted(plan_path(plan)), single_quoted(plan_digest));
}

std::vector<std::string> sbatch_options(const Plan& plan) {
    const record::JobFiles files(plan.directories.job_directory);
    std::vector<std::string> options = {
        "--job-name=" + plan.identity.job,
        "--comment=batchai:" + plan.identity.path_segment(),
        // A job that is queued again goes on with the log that it has.
        "--open-mode=append",
        "--output=" + literal_pattern(files.slurm_log().string()),
        "--chdir=" + files.directory().string(),
        // The modules and virtual environments of the submitting shell are there in the job.
        "--export=ALL",
    };
    for (const SlurmOption& option : allocation_options(plan))
        options.push_back(argument_of(option));
    return options;
}

}  // namespace batchai::plan

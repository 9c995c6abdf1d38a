// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "plan/elastic.hpp"
#include "plan/make.hpp"
#include "plan/quote.hpp"
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

void add_text(std::vector<std::string>& options, std::string_view name, const std::string& value) {
    if (!value.empty()) options.push_back(fmt::format("--{}={}", name, value));
}

}  // namespace

std::string plan_path(const Plan& plan) {
    return record::JobFiles(plan.directories.job_directory).plan().string();
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
    const Allocation& allocation = plan.allocation;
    const std::string& directory = plan.directories.job_directory;
    std::vector<std::string> options = {
        "--job-name=" + plan.identity.job,
        "--comment=batchai:" + plan.identity.path_segment(),
        fmt::format("--nodes={}", allocation.nodes),
        fmt::format("--ntasks={}", allocation.processes),
        fmt::format("--ntasks-per-node={}", allocation.processes_per_node),
    };
    if (allocation.cpus_per_process > 0)
        options.push_back(fmt::format("--cpus-per-task={}", allocation.cpus_per_process));
    if (allocation.exclusive) options.emplace_back("--exclusive");
    add_text(options, "partition", allocation.partition);
    add_text(options, "constraint", allocation.constraint);
    add_text(options, "gres", allocation.gres);
    add_text(options, "account", allocation.account);
    add_text(options, "qos", allocation.qos);
    if (allocation.time_limit.count() > 0)
        options.push_back(fmt::format("--time={}", allocation.time_limit.count()));
    if (allocation.nice != 0) options.push_back(fmt::format("--nice={}", allocation.nice));
    // A pre-empted job waits for a retry and writes on where it was.
    options.emplace_back("--requeue");
    // A lost node then ends its step, not the job.
    const auto elastic = elastic_of(plan.environment, allocation.nodes);
    if (elastic && *elastic) options.emplace_back("--no-kill");
    options.emplace_back("--open-mode=append");
    options.push_back("--output=" +
                      literal_pattern(record::JobFiles(directory).slurm_log().string()));
    options.push_back("--chdir=" + directory);
    // Modules and virtual environments of the submitting shell are there in the job.
    options.emplace_back("--export=ALL");
    options.insert(options.end(), allocation.extra_options.begin(), allocation.extra_options.end());
    return options;
}

}  // namespace batchai::plan

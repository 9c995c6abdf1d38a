// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/client.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "slurm/parse.hpp"

namespace batchai::slurm {

namespace {

using base::Result;

// Times come as UTC in one form, messages in English.
base::Environment reading_environment() {
    base::Environment environment = scrubbed_environment();
    const auto replaced = [](const std::string& entry) {
        return entry.starts_with("TZ=") || entry.starts_with("LC_") || entry.starts_with("LANG");
    };
    environment.erase(std::remove_if(environment.begin(), environment.end(), replaced),
                      environment.end());
    environment.insert(environment.end(), {"TZ=UTC0", "LC_ALL=C", "SLURM_TIME_FORMAT=standard"});
    return environment;
}

bool is_job_id(const std::string& id) {
    return !id.empty() && id.size() <= 10 &&
           std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
}

tl::unexpected<base::Error> bad_id(const std::string& id) {
    return base::fail(fmt::format("\"{}\" is not a job id", id), "Slurm");
}

bool says(const base::Completed& completed, std::string_view text) {
    return completed.standard_error.find(text) != std::string::npos;
}

}  // namespace

base::Environment scrubbed_environment() {
    base::Environment environment =
        base::environment_without({"SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SACCT_", "SALLOC_",
                                   "SRUN_", "SCANCEL_", "SCONTROL_"});
    for (const char* name : {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"}) {
        if (const char* value = std::getenv(name); value != nullptr)
            environment.push_back(fmt::format("{}={}", name, value));
    }
    return environment;
}

Result<base::Completed> Client::ask(const base::Arguments& arguments) const {
    base::RunOptions options;
    options.environment = reading_environment();
    options.deadline = deadline_;
    return base::run(arguments, options);
}

Result<std::string> Client::submit(const base::Arguments& options, const std::string& script,
                                   const base::Environment& environment) const {
    base::Arguments arguments{"sbatch", "--parsable"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.push_back(script);
    base::RunOptions run_options;
    run_options.environment = environment;
    run_options.deadline = deadline_;
    auto completed = base::run(arguments, run_options);
    if (!completed) return tl::unexpected<base::Error>(completed.error());
    if (completed->exit_code != 0)
        return tl::unexpected<base::Error>(refusal("sbatch", completed->standard_error));
    return parse_submitted(completed->standard_output);
}

Result<void> Client::cancel(const std::string& job_id) const {
    if (!is_job_id(job_id)) return bad_id(job_id);
    auto completed = ask({"scancel", job_id});
    if (!completed) return tl::unexpected<base::Error>(completed.error());
    if (completed->exit_code == 0 || says(*completed, "Invalid job id") ||
        says(*completed, "already completing or completed"))
        return {};
    return tl::unexpected<base::Error>(refusal("scancel", completed->standard_error));
}

Result<void> Client::requeue(const std::string& job_id) const {
    if (!is_job_id(job_id)) return bad_id(job_id);
    auto completed = ask({"scontrol", "requeue", job_id});
    if (!completed) return tl::unexpected<base::Error>(completed.error());
    if (completed->exit_code == 0) return {};
    return tl::unexpected<base::Error>(refusal("scontrol", completed->standard_error));
}

Result<std::map<std::string, JobStatus>> Client::jobs(const std::vector<std::string>& ids) const {
    std::map<std::string, JobStatus> found;
    for (const std::string& id : ids)
        if (!is_job_id(id)) return bad_id(id);
    if (ids.empty()) return found;
    auto queue =
        ask({"squeue", "--noheader", "--states=all", fmt::format("--jobs={}", fmt::join(ids, ",")),
             fmt::format("--Format={}", kQueueFormat)});
    if (!queue) return tl::unexpected<base::Error>(queue.error());
    // What squeue says of one id alone that it has forgotten; of several it just leaves it out.
    if (queue->exit_code != 0 && !says(*queue, "Invalid job id"))
        return tl::unexpected<base::Error>(refusal("squeue", queue->standard_error));
    auto parsed = parse_queue(queue->standard_output);
    if (!parsed) return parsed;
    found = std::move(*parsed);

    std::vector<std::string> forgotten;
    for (const std::string& id : ids)
        if (!found.contains(id)) forgotten.push_back(id);
    if (forgotten.empty()) return found;
    auto accounts = ask({"sacct", "--noheader", "--parsable2", "--allocations", "--duplicates",
                         fmt::format("--jobs={}", fmt::join(forgotten, ",")),
                         fmt::format("--format={}", kAccountingFormat)});
    if (!accounts) return tl::unexpected<base::Error>(accounts.error());
    if (accounts->exit_code != 0) {
        // A site without accounting: nobody knows these jobs any more.
        if (says(*accounts, "accounting storage is disabled")) return found;
        return tl::unexpected<base::Error>(refusal("sacct", accounts->standard_error));
    }
    auto remembered = parse_accounting(accounts->standard_output);
    if (!remembered) return remembered;
    found.merge(*remembered);
    return found;
}

Result<JobDevices> Client::devices(const std::string& job_id) const {
    if (!is_job_id(job_id)) return bad_id(job_id);
    auto completed = ask({"scontrol", "--details", "show", "job", job_id});
    if (!completed) return tl::unexpected<base::Error>(completed.error());
    if (completed->exit_code != 0)
        return tl::unexpected<base::Error>(refusal("scontrol", completed->standard_error));
    return parse_job_devices(completed->standard_output);
}

Result<std::vector<NodeStatus>> Client::nodes(const NodeFilter& filter) const {
    base::Arguments arguments{"sinfo", "--noheader", "--Node",
                              fmt::format("--Format={}", kNodeFormat)};
    if (!filter.partition.empty())
        arguments.push_back(fmt::format("--partition={}", filter.partition));
    auto completed = ask(arguments);
    if (!completed) return tl::unexpected<base::Error>(completed.error());
    if (completed->exit_code != 0)
        return tl::unexpected<base::Error>(refusal("sinfo", completed->standard_error));
    auto nodes = parse_nodes(completed->standard_output);
    if (!nodes || filter.constraint.empty()) return nodes;
    if (filter.constraint.find_first_of("|[](),*") != std::string::npos)
        return base::fail(
            fmt::format("the constraint \"{}\" is not supported for listing nodes yet",
                        filter.constraint),
            "site.lua", "use features joined by \"&\"");
    const auto wanted = base::split(filter.constraint, '&');
    const auto lacks = [&](const NodeStatus& node) {
        return std::any_of(wanted.begin(), wanted.end(), [&](std::string_view feature) {
            return std::find(node.features.begin(), node.features.end(), base::trim(feature)) ==
                   node.features.end();
        });
    };
    nodes->erase(std::remove_if(nodes->begin(), nodes->end(), lacks), nodes->end());
    return nodes;
}

Result<std::string> Client::version() const {
    auto completed = ask({"sinfo", "--version"});
    if (!completed) return tl::unexpected<base::Error>(completed.error());
    const std::string_view text = base::trim(completed->standard_output);
    const std::size_t blank = text.rfind(' ');
    if (completed->exit_code != 0 || blank == std::string_view::npos)
        return tl::unexpected<base::Error>(refusal("sinfo", completed->standard_error));
    return std::string(text.substr(blank + 1));
}

}  // namespace batchai::slurm

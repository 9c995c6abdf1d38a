// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/metrics.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pwd.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/parallel.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "record/retries.hpp"
#include "record/usage.hpp"
#include "status/job_view.hpp"

namespace batchai::cli {
namespace {

struct MetricsOptions {
    std::optional<std::string> file;
};

base::Result<std::vector<store::Job>> all_jobs(const store::Store& store) {
    std::vector<store::Job> jobs;
    for (const store::Group& group : TRY(store.list<store::Group>({}))) {
        for (const store::Workspace& workspace : TRY(store.list<store::Workspace>(group.key))) {
            auto some = TRY(store.jobs_of_workspace(workspace.key));
            std::move(some.begin(), some.end(), std::back_inserter(jobs));
        }
    }
    return jobs;
}

// Adds what the files of a job, or of a task of an array job, say. What cannot be read of one job
// does not hide the others.
void add_files(const record::JobFiles& files, const std::optional<record::Attempt>& newest,
               bool ended, status::JobMetrics& out) {
    if (auto attempts = record::all_attempts(files)) out.attempts.push_back(std::move(*attempts));
    if (const auto count = record::read_retry_count(files); count && *count)
        out.retries += (*count)->retries;
    // While an array job runs, the tasks that have ended count as well, because the counters of the
    // job must not go back.
    if (out.view.state != slurm::ExecutionState::running || !newest) return;
    auto usage = record::newest_usage(files, newest->number);
    // A step that was killed could not note its end.
    for (record::NodeUsage& of_node : usage)
        of_node.ended = of_node.ended || ended;
    std::move(usage.begin(), usage.end(), std::back_inserter(out.usage));
}

status::JobMetrics metrics_of(const store::Store& store, status::JobView view) {
    status::JobMetrics out{.view = std::move(view), .attempts = {}, .retries = 0, .usage = {}};
    const record::JobFiles files = store.job_files(out.view.job.key);
    const status::JobView& job = out.view;
    if (job.job.is_array) {
        for (const status::TaskView& task : job.tasks)
            if (task.attempt)
                add_files(files.array_task(task.number), task.attempt, task.ended(), out);
    } else {
        add_files(files, job.attempt, job.ended(), out);
    }
    return out;
}

std::string user_name() {
    const passwd* const entry = getpwuid(getuid());
    return entry == nullptr ? std::to_string(getuid()) : entry->pw_name;
}

Answer metrics(const MetricsOptions& options) {
    const auto here = TRY(open_context());
    auto known = TRY(all_jobs(here.store));
    auto views = TRY(status::view_jobs(here.store, here.slurm, std::move(known)));
    std::vector<status::JobMetrics> jobs(views.size());
    base::in_parallel(
        jobs.size(), [&](std::size_t i) { jobs[i] = metrics_of(here.store, std::move(views[i])); });
    const std::string text = status::metrics_text(jobs, user_name());
    if (options.file) {
        TRY(base::write_atomically(*options.file, text));
        return Outcome{};
    }
    return Outcome{.exit_code = print_bytes(text) ? 0 : 1};
}

}  // namespace

const Verbs metrics_verbs("", 80, [](CommandTree& tree, Parser app) {
    auto [leaf, options] =
        add_verb(tree, app, "metrics", "Show your jobs as metrics in the text format of Prometheus",
                 "batchai metrics --output ~/.batchai-metrics.prom", metrics, Printing::by_itself);
    add_optional(leaf, "--output,-o", options->file,
                 "Replace this file, so that a reader sees the old one or the new one")
        .type_name("FILE");
});

}  // namespace batchai::cli

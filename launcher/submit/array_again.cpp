// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/array_again.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/lock.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "plan/make.hpp"
#include "record/retries.hpp"
#include "slurm/parse.hpp"
#include "submit/environment.hpp"
#include "submit/held_job.hpp"

namespace batchai::submit {
namespace {

// The attempts of the tasks are counted on from this number.
int attempts_so_far(const record::JobFiles& files, const std::vector<status::TaskView>& tasks,
                    const std::vector<status::TaskRun>& runs) {
    int most = 0;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        most = std::max(most, runs[i].attempts_before);
        const auto attempt = record::latest_attempt(files.array_task(tasks[i].number));
        if (attempt && *attempt) most = std::max(most, (*attempt)->number);
        // Slurm may have counted attempts that have left no record.
        const auto& slurm = tasks[i].evidence.slurm;
        if (slurm) most = std::max(most, runs[i].attempts_before + slurm->restart_count + 1);
    }
    return most;
}

// "retry" of the job file counts anew, and does not judge the attempts to come by those before.
base::Result<void> count_anew(const record::JobFiles& files,
                              const std::vector<status::TaskView>& tasks, int attempts_before) {
    for (const status::TaskView& task : tasks) {
        const record::JobFiles of_task = files.array_task(task.number);
        const auto count = TRY(record::read_retry_count(of_task));
        TRY(base::make_directories(of_task.directory(), 0700));
        TRY(record::write_retry_count(
            of_task, {.attempt = attempts_before + 1, .progress = count ? count->progress : ""}));
    }
    return {};
}

// Returns the plan of an array of `tasks`. The plan's limit of tasks at a time is kept. What the
// job depended on has been, and Slurm may have forgotten it.
plan::Plan array_of(plan::Plan plan, const std::string& tasks) {
    auto& options = plan.allocation.options;
    std::erase_if(options,
                  [](const plan::SlurmOption& option) { return option.name == "dependency"; });
    for (plan::SlurmOption& option : options) {
        if (option.name != "array") continue;
        const std::size_t limit = option.value.find('%');
        option.value = tasks + (limit == std::string::npos ? "" : option.value.substr(limit));
    }
    return plan;
}

}  // namespace

base::Result<base::FileDescriptor> lock_tasks(const record::JobFiles& files) {
    const std::string path = files.array_lock().string();
    base::FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) return base::system_error("open", path);
    if (base::lock_now(file.get())) return file;
    if (errno != EWOULDBLOCK) return base::system_error("lock", path);
    return base::fail("another command is just queuing this job, or tasks of it, again", path,
                      "try again when it has ended", base::ExitCode::refused);
}

base::Result<void> run_tasks_again(const store::Store& store, const slurm::Client& client,
                                   const plan::Plan& plan, const store::Job& job,
                                   const std::vector<status::TaskView>& tasks,
                                   std::string_view noun) {
    std::vector<int> numbers;
    numbers.reserve(tasks.size());
    for (const status::TaskView& task : tasks)
        numbers.push_back(task.number);
    const record::JobFiles files = store.job_files(job.key);
    store::ArrayRun run{
        .slurm_job_id = {},
        .tasks = base::number_ranges(numbers),
        .attempts_before = attempts_so_far(files, tasks, status::runs_of(job, numbers))};
    if (plan.retry) TRY(count_anew(files, tasks, run.attempts_before));
    const auto script =
        files.batch_script_again(static_cast<int>(job.array_runs.size()) + 1).string();
    const base::HeldSignals held{signals_held_for_submission};
    TRY(base::write_atomically(
        script, plan::batch_script(plan, launcher_path(), job.plan_digest, run.attempts_before),
        0700));
    // A task that starts before the record knows the array would find the mark of a termination,
    // and not run again.
    const auto record = [&](const std::string& id) -> base::Result<void> {
        run.slurm_job_id = id;
        TRY(store.update<store::Job>(job.key, [&](store::Job& changed) {
            changed.array_runs.push_back(run);
            changed.termination_requested.reset();
        }));
        return {};
    };
    TRY(submit_and_record(client, array_of(plan, run.tasks), script, held, record));
    cli::say(fmt::format("{} queued again as Slurm job {}: {}",
                         tasks.size() == 1 ? fmt::format("1 {} is", noun)
                                           : fmt::format("{} {}s are", tasks.size(), noun),
                         run.slurm_job_id, run.tasks));
    return {};
}

}  // namespace batchai::submit

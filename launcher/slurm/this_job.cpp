// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/this_job.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "base/process.hpp"
#include "base/text.hpp"
#include "slurm/client.hpp"
#include "slurm/hostlist.hpp"
#include "slurm/messages.hpp"
#include "slurm/status.hpp"

namespace batchai::slurm {

const std::string_view kThisJobFormat =
    "JobID:|,State:|,UserID:|,RestartCnt:|,ArrayJobID:|,ArrayTaskID:|,HetJobOffset:|,NodeList:|";

namespace {

constexpr std::size_t count_of_fields = 8;

// In these states a job waits, and Slurm may still show the nodes of its last run. Any other state
// that is not final is one of a job that runs, also those that a later Slurm adds.
constexpr std::array waiting_states{JobState::pending,     JobState::expediting,
                                    JobState::requeued,    JobState::requeue_hold,
                                    JobState::requeue_fed, JobState::reservation_deleted_hold,
                                    JobState::special_exit};

tl::unexpected<base::Error> not_in_allocation(std::string what) {
    return base::fail(std::move(what), "batchai run",
                      "use it in a script submitted with sbatch, or inside salloc",
                      base::ExitCode::usage);
}

base::Result<ThisJob> this_job_of(const std::vector<std::string_view>& fields, uid_t user) {
    const std::string id(fields[0]);
    const auto is_none = [](std::string_view text) { return text.empty() || text == "N/A"; };
    const JobState state = job_state(fields[1]);
    if (is_final(state) ||
        std::find(waiting_states.begin(), waiting_states.end(), state) != waiting_states.end() ||
        is_none(fields[7]))
        return not_in_allocation(
            fmt::format("SLURM_JOB_ID names job {}, which does not run: it is {}", id, fields[1]));
    if (base::number_in<uid_t>(fields[2]) != user)
        return not_in_allocation(
            fmt::format("SLURM_JOB_ID names job {}, which is another user's", id));
    if (!is_none(fields[6]))
        return base::fail(
            fmt::format("job {} is a component of a heterogeneous job, in which no job file can "
                        "be run",
                        id),
            "batchai run", "submit a job of its own for the job file", base::ExitCode::usage);
    const auto restarts = base::number_in<int>(fields[3]);
    if (!restarts) return base::fail(fmt::format("job {} has no number of restarts", id), "squeue");
    ThisJob job{
        .job_id = id, .restart = *restarts, .nodes = TRY(expand_hostlist(std::string(fields[7])))};
    if (const auto task = base::number_in<int>(fields[5]); task && *task >= 0) {
        job.array_id = std::string(fields[4]);
        job.array_task = task;
    }
    return job;
}

// Leaves out the newline that ends the line, and any blanks.
std::vector<std::string_view> trimmed_fields(std::string_view line) {
    std::vector<std::string_view> fields = base::split(line, '|');
    for (std::string_view& field : fields)
        field = base::trim(field);
    return fields;
}

bool is_silence(const base::Error& error) {
    return gave_no_answer(error) || error.where == "slurmctld";
}

}  // namespace

std::string ThisJob::id_in_commands() const {
    return array_task ? fmt::format("{}_{}", array_id, *array_task) : job_id;
}

std::string text_for_plugin(const ThisJob& job) {
    std::string text = fmt::format("{} {}", job.job_id, job.restart);
    if (job.array_task) text += fmt::format(" {}", *job.array_task);
    return text;
}

base::Result<ThisJob> read_this_job(std::string_view text, const std::string& job_id, uid_t user) {
    for (const std::string_view line : base::split(text, '\n')) {
        const auto fields = trimmed_fields(line);
        if (fields.front() != job_id) continue;
        // An empty part follows the last separator.
        if (fields.size() != count_of_fields + 1)
            return base::fail(fmt::format("cannot be understood: {}", line), "squeue");
        return this_job_of(fields, user);
    }
    return not_in_allocation(
        fmt::format("SLURM_JOB_ID names job {}, which Slurm does not know", job_id));
}

base::Result<ThisJob> this_job(std::chrono::seconds patience) {
    const auto job = JobId::parse(base::variable("SLURM_JOB_ID").value_or(""));
    if (!job) return not_in_allocation("this is not inside a Slurm allocation");
    const auto end = std::chrono::steady_clock::now() + patience;
    constexpr std::chrono::seconds pause{2};
    bool told = false;
    while (true) {
        auto answer = Client(std::chrono::seconds(30)).queue_of_job(*job);
        if (answer) return read_this_job(*answer, job->text(), getuid());
        if (!is_silence(answer.error()) || std::chrono::steady_clock::now() + pause > end)
            return tl::unexpected(std::move(answer.error()));
        if (!told)
            std::fprintf(stderr, "batchai: %s; trying again for %s\n", answer.error().what.c_str(),
                         fmt::format("{} s", patience.count()).c_str());
        told = true;
        std::this_thread::sleep_for(pause);
    }
}

}  // namespace batchai::slurm

// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/job_facts.hpp"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "slurm/pending_reason.hpp"
#include "status/output_directory.hpp"

namespace batchai::status {

Summary summary_of(const JobView& view) {
    Summary out{.name = view.job.key.job,
                .slurm_job_id = view.job.slurm_job_id,
                .state = std::string(slurm::to_string(view.state)),
                .ended = view.ended(),
                .ended_by = {},
                .exit_code = view.exit_code(),
                .created = view.job.creation_time,
                .start = view.start(),
                .end = view.end(),
                .error_code = {},
                .error_message = {},
                .why_it_waits = {},
                .expected_start = {}};
    if (out.ended) out.ended_by = base::word_of(slurm::ended_by(view.evidence));
    const base::Value errors = job_errors(view);
    if (errors.array() != nullptr && !errors.array()->empty()) {
        const base::Value& first = errors.array()->front();
        if (const auto* code = first["code"].string()) out.error_code = *code;
        if (const auto* message = first["message"].string()) out.error_message = *message;
    }
    if (view.state == slurm::ExecutionState::queued && view.evidence.slurm) {
        out.why_it_waits = slurm::pending_reason_in_words(view.evidence.slurm->reason).sentence;
        out.expected_start = view.evidence.slurm->start;
    }
    return out;
}

base::Result<void> check_task(const store::Store& store, const FactsOf& of) {
    const auto job = TRY(store.get<store::Job>(of.key));
    if (of.task && !job.is_array) return tl::unexpected(not_an_array(of.key));
    if (!of.task && job.is_array)
        return base::fail("the job is an array, and each of its tasks has records of its own",
                          of.key.job, "name a task with --task", base::ExitCode::usage);
    return {};
}

base::Result<Facts> facts_of(const store::Store& store, const JobView& view, const FactsOf& of,
                             Collect what) {
    const auto plan = TRY(plan_of_job(store, of.key));
    what.job = summary_of(view);
    if (of.task) what.job.name += fmt::format(" [{}]", *of.task);
    return collect(files_of(store, of.key, of.task), plan, std::move(what));
}

}  // namespace batchai::status

// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/submission.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "submit/steps.hpp"

namespace batchai::submit {

namespace {

enum class Changes { nothing, something };

struct Step {
    base::Result<void> (*run)(Submission&);
    Changes changes;
    Goal first;  // of the goals that need the step
    Goal last = Goal::submitted;
};

// Nothing is created and no image is asked for while Slurm cannot take the job.
base::Result<void> reach_slurm(Submission& submission) {
    const bool needed = submission.goal == Goal::submitted || submission.slurm_is_asked;
    return needed ? submission.slurm.ping() : base::Result<void>();
}

// The steps in the order in which they are taken.
constexpr std::array steps{
    Step{&name_job, Changes::nothing, Goal::checked},
    Step{&reach_slurm, Changes::nothing, Goal::shown},
    Step{&read_job_file, Changes::nothing, Goal::checked},
    Step{&add_defaults, Changes::nothing, Goal::checked},
    Step{&find_cluster, Changes::nothing, Goal::checked},
    Step{&read_secrets, Changes::nothing, Goal::checked},
    Step{&resolve_image, Changes::nothing, Goal::checked},
    Step{&ask_for_task_prolog, Changes::nothing, Goal::frozen},
    Step{&make_plan, Changes::nothing, Goal::checked},
    Step{&freeze, Changes::nothing, Goal::checked},
    Step{&reserve, Changes::something, Goal::frozen},
    Step{&import_image, Changes::something, Goal::handed_over, Goal::handed_over},
    Step{&submit_job, Changes::something, Goal::submitted},
};

base::Result<void> take_steps(Submission& submission, Changes changes) {
    for (const Step& step : steps) {
        const bool wanted = step.changes == changes && step.first <= submission.goal &&
                            submission.goal <= step.last;
        if (!wanted) continue;
        TRY(step.run(submission));
        if (!submission.is_sound()) break;
    }
    return {};
}

void sort_by_position(std::vector<job::Diagnostic>& diagnostics) {
    std::stable_sort(diagnostics.begin(), diagnostics.end(), [](const auto& a, const auto& b) {
        return std::tie(a.position.line, a.position.column) <
               std::tie(b.position.line, b.position.column);
    });
    diagnostics.erase(std::unique(diagnostics.begin(), diagnostics.end()), diagnostics.end());
}

}  // namespace

base::Result<void> prepare(Submission& submission) {
    TRY(take_steps(submission, Changes::nothing));
    sort_by_position(submission.diagnostics);
    return {};
}

base::Result<void> carry_out(Submission& submission) {
    return take_steps(submission, Changes::something);
}

std::string messages(const Submission& submission) {
    const JobText& text = submission.text;
    std::string out;
    if (!submission.diagnostics.empty())
        out = job::render_all(submission.diagnostics, text.name, text.text);
    if (!submission.is_sound()) return out;
    for (const std::string& notice : submission.plan->notices)
        out += fmt::format("batchai: {}\n", notice);
    return out;
}

}  // namespace batchai::submit

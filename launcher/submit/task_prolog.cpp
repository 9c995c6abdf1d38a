// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/client.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {

base::Result<void> ask_for_task_prolog(Submission& submission) {
    if (submission.image)
        submission.task_prolog =
            slurm::configured(TRY(submission.slurm.configuration()), "TaskProlog");
    return {};
}

}  // namespace batchai::submit

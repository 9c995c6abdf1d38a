// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include <sys/types.h>

#include "base/process.hpp"

namespace batchai::run {

// An srun that runs beside the job's other steps. Its end asks srun to end the step, and waits.
class BackgroundStep {
  public:
    // srun's own messages go to the file, which is made if need be.
    [[nodiscard]] static base::Result<BackgroundStep> start(const base::Arguments& arguments,
                                                            const base::Environment& environment,
                                                            const std::string& messages_path);
    ~BackgroundStep();
    BackgroundStep(BackgroundStep&& other) noexcept;
    BackgroundStep& operator=(BackgroundStep&& other) noexcept;
    BackgroundStep(const BackgroundStep&) = delete;
    BackgroundStep& operator=(const BackgroundStep&) = delete;

    // False once srun has ended.
    [[nodiscard]] bool runs();

  private:
    explicit BackgroundStep(pid_t srun) : srun_(srun) {}
    void end();

    pid_t srun_ = -1;  // -1: has ended
};

}  // namespace batchai::run

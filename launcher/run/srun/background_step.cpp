// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/background_step.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>

#include "base/file.hpp"
#include "run/srun/step.hpp"

namespace batchai::run {

namespace {

constexpr std::chrono::seconds longest_end{5};
constexpr std::chrono::milliseconds between_looks{50};

}  // namespace

base::Result<BackgroundStep> BackgroundStep::start(const base::Arguments& arguments,
                                                   const base::Environment& environment,
                                                   const std::string& messages_path) {
    const base::FileDescriptor messages(
        open(messages_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!messages.valid()) return base::fail(std::strerror(errno), messages_path);
    return start_srun(arguments, environment, messages.get()).map([](pid_t srun) {
        return BackgroundStep(srun);
    });
}

BackgroundStep::~BackgroundStep() {
    end();
}

BackgroundStep::BackgroundStep(BackgroundStep&& other) noexcept
    : srun_(std::exchange(other.srun_, -1)) {}

BackgroundStep& BackgroundStep::operator=(BackgroundStep&& other) noexcept {
    if (this != &other) {
        end();
        srun_ = std::exchange(other.srun_, -1);
    }
    return *this;
}

bool BackgroundStep::runs() {
    if (srun_ > 0 && waitpid(srun_, nullptr, WNOHANG) != 0) srun_ = -1;
    return srun_ > 0;
}

void BackgroundStep::end() {
    if (!runs()) return;
    kill(srun_, SIGTERM);
    const auto until = std::chrono::steady_clock::now() + longest_end;
    while (runs() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(between_looks);
    if (!runs()) return;
    // Slurm ends its step with the job.
    kill(srun_, SIGKILL);
    waitpid(srun_, nullptr, 0);
    srun_ = -1;
}

}  // namespace batchai::run

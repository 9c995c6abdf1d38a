// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/piped_step.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

constexpr std::chrono::seconds end_of_input{5};
constexpr std::size_t kept_messages = 8192;
constexpr int pipe_bytes = 1 << 20;

}  // namespace

base::Result<PipedStep> PipedStep::start(base::Arguments arguments, base::Environment environment) {
    base::Pipe input = TRY(base::make_pipe());
    base::Pipe output = TRY(base::make_pipe());
    base::Pipe messages = TRY(base::make_pipe());
    for (const int descriptor : {input.write_end.get(), output.write_end.get()})
        fcntl(descriptor, F_SETPIPE_SZ, pipe_bytes);
    // Ctrl-C must not reach srun, which would end the step before what has arrived is used.
    base::Child srun =
        TRY(base::Child::start({.arguments = std::move(arguments),
                                .environment = std::move(environment),
                                .descriptors = {{input.read_end.get(), STDIN_FILENO},
                                                {output.write_end.get(), STDOUT_FILENO},
                                                {messages.write_end.get(), STDERR_FILENO}},
                                .own_group = true,
                                .ends_with_us = true,
                                .signals = base::Signals::unblocked_all_default,
                                .missing_hint = no_srun_hint}));
    return PipedStep(std::move(srun), std::move(input.write_end), std::move(output.read_end),
                     std::move(messages.read_end));
}

PipedStep::~PipedStep() {
    if (srun_.process() <= 0) return;
    input_.reset(-1);
    output_.reset(-1);
    messages_.reset(-1);
    const auto by = [](std::chrono::seconds time) {
        return std::chrono::steady_clock::now() + time;
    };
    // The step sees the end of its input. If it does not end, srun has Slurm kill it.
    if (!killed_at_end_ && srun_.ended_by(by(end_of_input))) return;
    srun_.signal(SIGTERM);
    static_cast<void>(srun_.ended_by(by(end_of_input)));
}

void PipedStep::read_messages() {
    pollfd waiting{messages_.get(), POLLIN, 0};
    while (messages_.valid() && ::poll(&waiting, 1, 0) > 0) {
        if (!base::drain(messages_.get(), said_)) messages_.reset(-1);
        if (said_.size() > 2 * kept_messages) said_.erase(0, said_.size() - kept_messages);
    }
}

std::string PipedStep::said() const {
    return base::printable_lines(base::trim(said_));
}

PipedStep::End PipedStep::wait(const base::HeldSignals& signals) {
    while (true) {
        read_messages();
        drop_output();
        // A child of srun may hold the other ends of the pipes open, so their end says nothing.
        const auto status =
            srun_.ended_by(std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
        if (status) {
            read_messages();
            return {.exit_code = base::shell_exit_code(*status)};
        }
        if (const auto signal = signals.next())
            return {.exit_code = 128 + *signal, .interrupted = true};
    }
}

void PipedStep::drop_output() {
    pollfd waiting{output_.get(), POLLIN, 0};
    std::string dropped;
    while (output_.valid() && ::poll(&waiting, 1, 0) > 0)
        if (!base::drain(output_.get(), dropped, 0)) output_.reset(-1);
}

}  // namespace batchai::run

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <csignal>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"

namespace batchai::run {

// An srun of piped_arguments(). The destructor ends it, and with it the step.
class PipedStep {
  public:
    [[nodiscard]] static base::Result<PipedStep> start(base::Arguments arguments,
                                                       base::Environment environment);
    PipedStep(PipedStep&& other) = default;
    PipedStep& operator=(PipedStep&& other) = delete;
    PipedStep(const PipedStep&) = delete;
    PipedStep& operator=(const PipedStep&) = delete;
    ~PipedStep();

    // Leads to the step. Writing to a step that has ended raises SIGPIPE, which the caller ignores.
    [[nodiscard]] int input() const { return input_.get(); }
    [[nodiscard]] int output() const { return output_.get(); }      // comes from it
    [[nodiscard]] int messages() const { return messages_.get(); }  // srun's and the step's
    void close_input() { input_.reset(-1); }
    // Has the destructor end a step at once that does not care for the end of its input.
    void kill_at_end() { killed_at_end_ = true; }
    // Tells srun to end the step, and does not wait for that.
    void tell_to_end() const { srun_.signal(SIGTERM); }
    [[nodiscard]] bool has_ended() { return srun_.process() <= 0 || srun_.ended().has_value(); }
    // Reads what there is of the messages, without waiting.
    void read_messages();
    // The last of the messages, without what can break a terminal.
    [[nodiscard]] std::string said() const;
    struct End {
        int exit_code = 0;  // of srun; 128 plus the signal if one came first
        bool interrupted = false;
    };
    // Waits for the end of the step or for one of the signals. Reads the messages meanwhile, and
    // drops what still comes from the step.
    [[nodiscard]] End wait(const base::HeldSignals& signals);

  private:
    PipedStep(base::Child srun, base::FileDescriptor input, base::FileDescriptor output,
              base::FileDescriptor messages)
        : srun_(std::move(srun)),
          input_(std::move(input)),
          output_(std::move(output)),
          messages_(std::move(messages)) {}

    void drop_output();

    base::Child srun_;
    base::FileDescriptor input_;
    base::FileDescriptor output_;
    base::FileDescriptor messages_;
    std::string said_;
    bool killed_at_end_ = false;
};

}  // namespace batchai::run

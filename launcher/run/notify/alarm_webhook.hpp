// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>

#include "base/process.hpp"
#include "record/attempt.hpp"
#include "run/context.hpp"

namespace batchai::run {

// Tells the job's webhook of alarms while the ranks run, one after the other and without keeping
// anybody waiting. A failure is only a line in the logs.
class AlarmWebhook {
  public:
    explicit AlarmWebhook(Context& context) : context_(context) {}

    // Does nothing if the job has no webhook. An alarm that comes while another one is being told
    // is left out.
    void tell(const record::Alarm& alarm);
    // Says in the logs how it went, once that is known.
    void poll();
    // The same, but waits a second for it. What takes longer goes on by itself, unless this process
    // ends soon.
    void finish(bool in_a_hurry);

  private:
    struct Call {
        base::Child child;
        base::Pipe answer;
    };
    void say(int status);

    Context& context_;
    std::optional<Call> call_;
};

}  // namespace batchai::run

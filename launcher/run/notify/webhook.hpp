// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>

#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "run/context.hpp"

// Tells a webhook that the job has ended. alarm_webhook.hpp tells it of alarms of "watch".
namespace batchai::run {

// Returns what is sent, as JSON. `attempt` has ended.
[[nodiscard]] std::string webhook_body(const plan::Plan& plan, const record::Attempt& attempt);

// Returns what is sent of an alarm while the ranks run.
[[nodiscard]] std::string alarm_body(const plan::Plan& plan, const std::string& slurm_job_id,
                                     int attempt, const record::Alarm& alarm);

// Returns curl's configuration, which it reads from its standard input, so that neither the URL nor
// the body is an argument.
[[nodiscard]] std::string curl_config(const std::string& url, const std::string& body,
                                      bool over_http);

inline constexpr std::chrono::seconds longest_webhook_call{10};
// Sends the body to the plan's webhook. Takes at most that long. Returns why the webhook was not
// told; empty if it was.
[[nodiscard]] std::string send_to_webhook(const plan::Plan& plan, const std::string& body);

// Sends the end of the attempt, if the job has a webhook and will not be run again. Takes at most
// ten seconds. A failure is only a line in the logs.
void notify(Context& context, const record::Attempt& attempt);

}  // namespace batchai::run

// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/notify/alarm_webhook.hpp"

#include <chrono>
#include <csignal>
#include <string>
#include <utility>

#include "base/file.hpp"
#include "run/notify/webhook.hpp"

namespace batchai::run {

void AlarmWebhook::tell(const record::Alarm& alarm) {
    poll();
    if (!context_.plan.webhook) return;
    if (call_) {
        context_.log.say("the webhook was not told of this alarm, but still is of the one before");
        return;
    }
    const std::string body =
        alarm_body(context_.plan, context_.granted.job_id, context_.attempt(), alarm);
    auto answer = base::make_pipe();
    if (!answer) return;
    auto child = base::Child::fork(
        [&] {
            const std::string why = send_to_webhook(context_.plan, body);
            return base::write_all(answer->write_end.get(), why) ? 0 : 1;
        },
        true);
    if (!child) return;
    answer->write_end.reset(-1);
    call_.emplace(Call{.child = std::move(*child), .answer = std::move(*answer)});
}

void AlarmWebhook::poll() {
    if (!call_) return;
    if (const auto status = call_->child.ended()) say(*status);
}

void AlarmWebhook::finish(bool in_a_hurry) {
    constexpr std::chrono::seconds longest_wait{1};
    if (!call_) return;
    const auto status = call_->child.ended_by(std::chrono::steady_clock::now() + longest_wait);
    if (status) return say(*status);
    context_.log.say("the webhook has not answered yet to what it was told of the alarm");
    if (in_a_hurry) call_->child.signal(SIGKILL);
    call_->child.release();
    call_.reset();
}

void AlarmWebhook::say(int status) {
    const std::string why = status == 0 ? base::read_to_end(call_->answer.read_end.get())
                                        : std::string("the program that tells it has failed");
    call_.reset();
    context_.log.say(why.empty() ? std::string("the webhook was told of the alarm")
                                 : "the webhook was not told of the alarm: " + why);
}

}  // namespace batchai::run

// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/notify/webhook.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "job/syntax/utf8.hpp"
#include "node/secrets.hpp"

namespace batchai::run {

namespace {

using base::Value;

constexpr std::chrono::seconds longest_connect{5};
constexpr int webhook_tries = 3;
// A line of a program can be as long as it likes.
constexpr std::size_t longest_line = 1000;

// Chat programs take "<!channel>" and the like for a command.
std::string harmless(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else
            out += c;
    }
    return out;
}

std::string shortened(std::string_view text) {
    return job::printable(text.substr(0, longest_line));
}

std::int64_t duration_of(const record::Attempt& attempt) {
    const auto end = attempt.end.value_or(base::now());
    return std::max<std::int64_t>(
        0, std::chrono::duration_cast<std::chrono::seconds>(end - attempt.start).count());
}

std::string sentence(const plan::Plan& plan, const record::Attempt& attempt) {
    const bool good = attempt.exit_code.value_or(1) == 0;
    std::string text =
        fmt::format("Job {} (Slurm job {}) has {} after {} s", plan.identity.job,
                    attempt.slurm_job_id, good ? "succeeded" : "failed", duration_of(attempt));
    if (attempt.number > 1) text += fmt::format(", in attempt {}", attempt.number);
    if (good) return text;
    text += fmt::format(", with exit code {}", attempt.exit_code.value_or(1));
    if (!attempt.failure) return text;
    const record::Failure& failure = *attempt.failure;
    text += fmt::format(": {}", shortened(failure.message));
    if (failure.rank) text += fmt::format("; rank {}", *failure.rank);
    if (!failure.node.empty())
        text += fmt::format("{} on {}", failure.rank ? "" : ";", failure.node);
    if (!failure.first_error_line.empty())
        text += fmt::format(": {}", shortened(failure.first_error_line));
    return text;
}

Value text_or_null(const std::string& text) {
    return text.empty() ? Value() : Value(shortened(text));
}

Value failure_value(const record::Failure& failure) {
    return Value::Object{{"code", failure.code},
                         {"message", shortened(failure.message)},
                         {"phase", text_or_null(failure.phase)},
                         {"node", text_or_null(failure.node)},
                         {"rank", failure.rank ? Value(*failure.rank) : Value()},
                         {"firstErrorLine", text_or_null(failure.first_error_line)}};
}

// In curl's configuration, a value in double quotes has these escapes.
std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out + '"';
}

// Returns why the webhook was not told; empty if it was.
std::string why_not(const base::Result<base::Completed>& sent) {
    if (!sent) {
        const bool late = sent.error().exit_code == base::ExitCode::timed_out;
        return late ? fmt::format("it did not answer within {} s", longest_webhook_call.count())
                    : sent.error().text();
    }
    // Of the last try, which is "000" if there was no answer.
    const std::string& printed = sent->standard_output;
    const auto status =
        base::number_in<int>(
            printed.substr(printed.size() - std::min<std::size_t>(3, printed.size())))
            .value_or(0);
    if (status >= 200 && status < 300) return {};
    if (status >= 300 && status < 400)
        return fmt::format("it answered with a redirection (HTTP status {}), which is not followed",
                           status);
    if (status != 0) return fmt::format("it answered with HTTP status {}", status);
    // curl's own message can have the URL in it.
    switch (sent->exit_code) {
        case 1:
            return "its protocol is not allowed";
        case 3:
            return "its URL cannot be read";
        case 5:
        case 6:
            return "the name of its host, or of the proxy, is not known";
        case 7:
            return "it refuses the connection";
        case 28:
            return "it did not answer in time";
        case 35:
        case 60:
            return fmt::format("its certificate or its TLS is not accepted (curl's exit code {})",
                               sent->exit_code);
        default:
            return fmt::format("curl ended with exit code {}", sent->exit_code);
    }
}

}  // namespace

std::string webhook_body(const plan::Plan& plan, const record::Attempt& attempt) {
    const bool good = attempt.exit_code.value_or(1) == 0;
    const std::string text = harmless(sentence(plan, attempt));
    if (plan.webhook && plan.webhook->text_only)
        return base::format_json(Value::Object{{"text", text}});
    return base::format_json(Value::Object{
        {"text", text},
        {"job", plan.identity.job},
        {"experiment", plan.identity.experiment},
        {"workspace", plan.identity.workspace},
        {"slurmJobId", attempt.slurm_job_id},
        {"state", good ? "succeeded" : "failed"},
        {"endedBy", attempt.ended_by ? Value(base::word_of(*attempt.ended_by)) : Value()},
        {"exitCode", attempt.exit_code.value_or(1)},
        {"attempt", attempt.number},
        {"startTime", base::to_iso8601(attempt.start)},
        {"durationSeconds", duration_of(attempt)},
        {"failure", attempt.failure ? failure_value(*attempt.failure) : Value()}});
}

std::string alarm_body(const plan::Plan& plan, const std::string& slurm_job_id, int attempt,
                       const record::Alarm& alarm) {
    const std::string text =
        harmless(fmt::format("Job {} (Slurm job {}) raises an alarm: {}", plan.identity.job,
                             slurm_job_id, shortened(record::sentence_of(alarm))));
    if (plan.webhook && plan.webhook->text_only)
        return base::format_json(Value::Object{{"text", text}});
    return base::format_json(
        Value::Object{{"text", text},
                      {"job", plan.identity.job},
                      {"experiment", plan.identity.experiment},
                      {"workspace", plan.identity.workspace},
                      {"slurmJobId", slurm_job_id},
                      {"state", "running"},
                      {"attempt", attempt},
                      {"alarm", Value::Object{{"time", base::to_iso8601(alarm.time)},
                                              {"message", alarm.message},
                                              {"node", text_or_null(alarm.node)},
                                              {"rank", alarm.rank ? Value(*alarm.rank) : Value()},
                                              {"where", text_or_null(alarm.where)}}}});
}

std::string curl_config(const std::string& url, const std::string& body, bool over_http) {
    return fmt::format(
        "url = {}\n"
        "data-raw = {}\n"
        "header = \"Content-Type: application/json\"\n"
        "user-agent = \"batchai\"\n"
        "proto = \"{}\"\n"
        "globoff\n"
        "silent\n"
        "output = \"/dev/null\"\n"
        "write-out = \"%{{http_code}}\"\n"
        "connect-timeout = {}\n"
        "max-time = {}\n"
        "retry = {}\n"
        "retry-delay = 1\n"
        "retry-connrefused\n"
        "retry-max-time = {}\n"
        "max-filesize = 1048576\n",
        in_quotes(url), in_quotes(body), over_http ? "=http,https" : "=https",
        longest_connect.count(), longest_webhook_call.count() - 1, webhook_tries - 1,
        longest_webhook_call.count() - 2);
}

std::string send_to_webhook(const plan::Plan& plan, const std::string& body) {
    const plan::Webhook& webhook = *plan.webhook;
    const auto secrets = node::read_secrets(plan.directories.plan_directory, {webhook.secret_name});
    if (!secrets) return secrets.error().text();
    // "--disable" keeps the user's .curlrc from adding options such as --location.
    return why_not(base::run(
        {"curl", "--disable", "--config", "-"},
        {.standard_input = curl_config(secrets->front().value, body, webhook.over_http),
         .deadline = longest_webhook_call,
         .ends_with_us = true,
         .signals = base::Signals::unblocked,
         .missing_hint = "the webhook is told with curl: ask the admin to install it on the "
                         "nodes"}));
}

void notify(Context& context, const record::Attempt& attempt) {
    const auto& webhook = context.plan.webhook;
    if (!webhook || attempt.runs_again()) return;
    if (webhook->only_failures && attempt.exit_code.value_or(1) == 0) return;
    const std::string why = send_to_webhook(context.plan, webhook_body(context.plan, attempt));
    if (why.empty()) {
        context.log.master("the webhook was told that the job has ended");
        return;
    }
    const std::string line =
        fmt::format("the webhook was not told that the job has ended: {}", why);
    context.log.master(line);
    std::fprintf(stderr, "batchai: warning: %s\n", line.c_str());
}

}  // namespace batchai::run

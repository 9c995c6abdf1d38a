// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/page/page.hpp"

#include <string_view>

#include <fmt/format.h>

#include "status/page/html.hpp"
#include "status/page/style.hpp"

namespace batchai::status {

namespace {

// A job that is requeued for weeks has more events than anybody reads in one page.
constexpr std::size_t first_events = 100;
constexpr std::size_t last_events = 300;
constexpr std::size_t most_notes = 32;

std::string fact(std::string_view name, std::string_view value, bool wide = false) {
    if (value.empty()) return {};
    return fmt::format("<div{}><dt>{}</dt><dd>{}</dd></div>\n", wide ? " class=\"wide\"" : "", name,
                       escape(value));
}

std::string code_fact(std::string_view name, std::string_view value) {
    if (value.empty()) return {};
    return fmt::format("<div class=\"wide\"><dt>{}</dt><dd><code>{}</code></dd></div>\n", name,
                       escape(value));
}

std::string time_of(const std::optional<base::Time>& time) {
    return time ? time_text(*time) + " UTC" : std::string();
}

std::string took(const Facts& facts) {
    const Summary& job = facts.job;
    if (!job.start) return {};
    return duration_text(seconds_between(*job.start, job.end.value_or(facts.now)));
}

std::string nodes_and_ranks(const Asked& asked) {
    return fmt::format("{} node{}, {} rank{}", asked.nodes, asked.nodes == 1 ? "" : "s",
                       asked.ranks, asked.ranks == 1 ? "" : "s");
}

std::string header(const Findings& findings) {
    const Summary& job = findings.facts.job;
    const Asked& asked = findings.facts.asked;
    std::string out =
        fmt::format("<div class=\"head\"><h1>{}</h1><span class=\"state {}\">{}</span></div>\n",
                    escape(job.name), escape(job.state), escape(job.state));
    std::string lead;
    if (job.ended) {
        lead = fmt::format("Ended by {}", job.ended_by);
        if (job.exit_code) lead += fmt::format(", with exit code {}", *job.exit_code);
    } else {
        lead = "The job has not ended. This page shows what was known at " +
               time_text(findings.facts.now) + " UTC";
    }
    out += fmt::format("<p class=\"lead\">{}.</p>\n", escape(lead));
    out += "<dl class=\"facts\">\n";
    out += fact("Size", nodes_and_ranks(asked));
    out += fact("Tool", asked.tool);
    out += fact("Slurm job", job.slurm_job_id);
    out += fact("Submitted", time_of(job.created));
    out += fact("Started", time_of(job.start));
    out += fact("Ended", time_of(job.end));
    out += fact("Took", took(findings.facts));
    if (asked.limit_seconds > 0)
        out += fact("Time limit", duration_text(static_cast<double>(asked.limit_seconds)));
    out += fact("Attempts", findings.attempts.size() > 1 ? std::to_string(findings.attempts.size())
                                                         : std::string());
    out += fact("Why it waits", job.why_it_waits, true);
    if (!job.why_it_waits.empty())
        out += fact("Expected start",
                    job.expected_start ? time_of(job.expected_start) + " (estimate)" : "unknown");
    out += fact("Image", asked.image, true);
    out += code_fact("Command", asked.command);
    return out + "</dl>\n";
}

// The first failure of the newest attempt that has one.
std::string failure_section(const Findings& findings) {
    const record::Attempt* failed = nullptr;
    for (const record::Attempt& attempt : findings.facts.attempts) {
        if (attempt.failure) failed = &attempt;
    }
    const Summary& job = findings.facts.job;
    std::string out;
    const bool words_of_job = !job.error_message.empty() &&
                              (failed == nullptr || failed->failure->message != job.error_message);
    if (words_of_job)
        out += fmt::format("<div class=\"failure\">{} ({})</div>\n", escape(job.error_message),
                           escape(job.error_code));
    if (failed != nullptr) {
        const record::Failure& failure = *failed->failure;
        std::string where;
        if (failure.rank) where += fmt::format(" on rank {}", *failure.rank);
        if (!failure.node.empty()) where += fmt::format(" on node {}", failure.node);
        if (!failure.phase.empty()) where += fmt::format(" in the phase {}", failure.phase);
        if (failure.signal) where += fmt::format(", by signal {}", *failure.signal);
        if (failure.exit_code) where += fmt::format(", with exit code {}", *failure.exit_code);
        out += fmt::format("<div class=\"failure\">{} ({}): attempt {} failed first{}.",
                           escape(failure.message), escape(failure.code), failed->number,
                           escape(where));
        if (!failure.first_error_line.empty())
            out += fmt::format("<code>{}</code>", escape(failure.first_error_line));
        out += "</div>\n";
    }
    std::size_t shown = 0;
    for (const record::FailureNote& note : findings.facts.failures) {
        if (shown++ == most_notes) break;
        out += fmt::format("<div class=\"failure\">{} on node {}<code>{}</code></div>\n",
                           escape(note.code), escape(note.node), escape(note.text));
    }
    return out.empty() ? out : "<h2>First failure</h2>\n" + out;
}

std::string advice_section(const Findings& findings) {
    std::string out = "<h2>What to change</h2>\n";
    if (findings.advice.empty())
        return out + "<p>Nothing in the records of the job calls for a change.</p>\n";
    out += "<ul class=\"advice\">\n";
    for (const Advice& advice : findings.advice)
        out += fmt::format("<li>{}</li>\n", escape(advice.text));
    return out + "</ul>\n";
}

std::string row_of(const Event& event) {
    return fmt::format("<tr><td class=\"time\">{}</td><td>{}</td><td class=\"text\">{}</td></tr>\n",
                       time_text(event.time), escape(event.node), escape(event.text));
}

std::string events_section(const Findings& findings) {
    const auto& events = findings.events;
    if (events.empty()) return {};
    std::string out =
        "<h2>Events</h2>\n<table class=\"events\"><thead><tr><th>Time (UTC)</th><th>Node</th>"
        "<th>Event</th></tr></thead><tbody>\n";
    const bool all = events.size() <= first_events + last_events;
    for (std::size_t i = 0; i < events.size(); ++i) {
        if (!all && i == first_events)
            out += fmt::format(
                "<tr><td></td><td></td><td class=\"text\">{} events are left out; "
                "`batchai job events` lists them</td></tr>\n",
                events.size() - first_events - last_events);
        if (all || i < first_events || i >= events.size() - last_events) out += row_of(events[i]);
    }
    return out + "</tbody></table>\n";
}

}  // namespace

std::string page_of(const Findings& findings) {
    std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    out += fmt::format(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; "
        "base-uri 'none'; form-action 'none'\">\n",
        policy_hash(page_style));
    out +=
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"referrer\" content=\"no-referrer\">\n";
    out += fmt::format("<title>{}: report of the job</title>\n", escape(findings.facts.job.name));
    out += "<style>";
    out += page_style;
    out += "</style>\n</head>\n<body>\n<main>\n";
    out += header(findings);
    out += failure_section(findings);
    out += advice_section(findings);
    out += attempts_section(findings);
    out += speed_section(findings);
    out += events_section(findings);
    out += fmt::format(
        "<footer>Written at {} UTC by <code>batchai job report</code>. Times are in "
        "UTC. The same numbers are in <code>batchai job report --output "
        "json</code>.</footer>\n",
        time_text(findings.facts.now));
    return out + "</main>\n</body>\n</html>\n";
}

}  // namespace batchai::status

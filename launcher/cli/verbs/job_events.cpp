// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/job_follow.hpp"
#include "cli/verbs/named_job.hpp"
#include "job/syntax/utf8.hpp"
#include "status/history/events.hpp"
#include "status/history/numbers.hpp"
#include "status/history/phases.hpp"
#include "status/job_facts.hpp"
#include "status/job_progress.hpp"
#include "status/job_watch.hpp"
#include "status/page/chart.hpp"

namespace batchai::cli {
namespace {

struct JobEventsOptions {
    NamedJob job;
    bool follow = false;
    bool chart = false;
};

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string() : value;
}

// The first of these that is set decides, as in the C library.
bool writes_utf8() {
    for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        const std::string value = base::lower(variable(name));
        if (!value.empty())
            return value.find("utf-8") != std::string::npos ||
                   value.find("utf8") != std::string::npos;
    }
    return false;
}

status::ChartStyle chart_style() {
    status::ChartStyle style;
    const bool terminal = isatty(STDOUT_FILENO) != 0;
    style.utf8 = writes_utf8();
    style.colour = terminal && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
    winsize size{};
    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        style.width = size.ws_col;
    } else if (const auto columns = base::number_in<int>(variable("COLUMNS"))) {
        style.width = *columns;
    }
    return style;
}

// Only the records are read: neither the timelines nor the samples.
base::Result<status::Facts> facts_for_events(const Context& here, const status::JobView& view,
                                             const status::FactsOf& of) {
    return status::facts_of(here.store, view, of, {.job = {}, .usage = false, .timelines = false});
}

Table event_columns(const Value& value) {
    Table table{{"Time", "Attempt", "Node", "Event"}, {}};
    if (value.array() == nullptr || value.array()->empty()) return {};
    const auto text = [](const Value& item) {
        if (const auto* number = item.integer()) return std::to_string(*number);
        // A line of a log could otherwise act on the terminal.
        return item.string() == nullptr ? std::string() : job::printable(*item.string());
    };
    for (const Value& item : *value.array())
        table.rows.push_back({text(item["time"]).substr(0, 19), text(item["attempt"]),
                              text(item["node"]), text(item["text"])});
    return table;
}

// Prints each event once, as a line.
class EventPrinter {
  public:
    // Returns false if the reader has gone away.
    bool print(const std::vector<status::Event>& events) {
        for (const status::Event& event : events) {
            // The time of "waits" is now; it is news only if its text is.
            const std::string key =
                event.kind == "waits"
                    ? event.text
                    : fmt::format("{} {} {}", event.kind, base::to_iso8601(event.time), event.text);
            if (printed_.insert(key).second && !print_bytes(status::line_of(event) + '\n'))
                return false;
        }
        return true;
    }
    [[nodiscard]] std::size_t count() const { return printed_.size(); }

  private:
    std::set<std::string> printed_;
};

Answer follow_events(const Context& here, const status::FactsOf& of) {
    const Interruption interruption;
    status::JobWatch watch(here.store, here.slurm, of.key, slurm_pause, of.task);
    EventPrinter printer;
    const auto look = [&](const status::JobView& view) -> base::Result<status::Step> {
        const std::size_t before = printer.count();
        const auto facts = TRY(facts_for_events(here, view, of));
        if (!printer.print(status::events_of(facts))) return status::Step::stop;
        return printer.count() > before ? status::Step::something_new : status::Step::nothing_new;
    };
    const auto followed = TRY(status::follow(watch, look));
    if (followed.stopped) return Outcome{};
    if (followed.view.ended()) return Outcome{.exit_code = status::say_end(followed.view)};
    return Outcome{.exit_code = status::say_interrupted(followed.view)};
}

Answer job_events(const JobEventsOptions& options) {
    const auto of = TRY(key_of(options.job, "events"));
    const auto here = TRY(open_context());
    TRY(status::check_task(here.store, of));
    if (options.follow) return follow_events(here, of);
    const auto view = TRY(status::view_job(here.store, here.slurm, of.key, of.task));
    const auto facts = TRY(facts_for_events(here, view, of));
    if (!options.chart)
        return Outcome{status::events_value(status::events_of(facts)), event_columns};
    if (facts.attempts.empty()) {
        say(facts.job.why_it_waits.empty() ? std::string("the job has not started")
                                           : "the job has not started: " + facts.job.why_it_waits);
        return Outcome{};
    }
    (void)print_bytes(status::chart_of(facts, status::bars_of(facts), chart_style()));
    return Outcome{};
}

}  // namespace

const Verbs job_events_verbs("job", 60, [](CommandTree& tree, Parser job) {
    auto [leaf, options] =
        add_verb(tree, job, "events", "Show what has happened to a job, phase by phase",
                 "batchai job events train --output table\n"
                 "  batchai job events train --chart\n"
                 "  batchai job events train --follow",
                 job_events);
    add_named_job(leaf, options->job);
    const Option chart = leaf.add_flag("--chart", options->chart,
                                       "Draw the phases of each node on an axis of time, as text");
    leaf.add_flag("--follow,-f", options->follow,
                  "Print events as lines of text until the job ends, and exit with its exit code")
        .excludes(chart);
});

}  // namespace batchai::cli

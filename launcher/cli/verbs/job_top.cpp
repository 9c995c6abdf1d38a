// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/process.hpp"
#include "base/utf8.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/job_follow.hpp"
#include "cli/verbs/named_job.hpp"
#include "record/usage.hpp"
#include "status/job_view.hpp"
#include "status/job_watch.hpp"
#include "status/usage/live_usage.hpp"

namespace batchai::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct JobTopOptions {
    NamedJob job;
    int interval = 2;
    std::string sort = "node";
    bool once = false;
    Option output;
    Option query;
};

// The nodes look every few seconds whether somebody watches. A shared file system may add as much.
constexpr seconds longest_wait_for_samples{15};

// The last line of a screen is not used, so that it does not scroll.
status::TopSize size_of_terminal(std::size_t lines_used) {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
        return {};
    const std::size_t used = lines_used + 1;
    return {.width = size.ws_col, .height = std::max<std::size_t>(size.ws_row, used + 4) - used};
}

// The keys of a terminal, one by one and without echo, if the tables are on it. Ctrl-C still
// interrupts. In a pipe, the terminal is the reader's, who may end this process at any time.
class Keys {
  public:
    explicit Keys(bool wanted)
        : is_terminal_(wanted && tcgetattr(STDIN_FILENO, &before_) == 0 &&
                       tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        if (!is_terminal_) return;
        raw_ = before_;
        raw_.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw_);
    }
    ~Keys() {
        if (is_terminal_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    Keys(const Keys&) = delete;
    Keys& operator=(const Keys&) = delete;

    // Returns true if the user wants to leave before that time.
    [[nodiscard]] bool leaves_by(Clock::time_point time) {
        while (true) {
            const auto signal = signals_.next();
            if (Interruption::requested() || (signal && *signal != SIGCONT)) return true;
            // The shell has set the terminal for itself while this process was stopped.
            if (signal && is_terminal_) tcsetattr(STDIN_FILENO, TCSANOW, &raw_);
            const auto left = std::chrono::ceil<milliseconds>(time - Clock::now()).count();
            if (left <= 0) return false;
            std::array<pollfd, 2> events{
                {{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0},
                 {.fd = is_terminal_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
            if (Interruption::poll(events, milliseconds(left)) <= 0 || events[1].revents == 0)
                continue;
            char key = 0;
            if (read(STDIN_FILENO, &key, 1) != 1) is_terminal_ = false;
            if (key == 'q' || key == 'Q') return true;
        }
    }

  private:
    // The terminal is restored after these, too.
    base::HeldSignals signals_{SIGTERM, SIGHUP, SIGCONT};
    termios before_{};
    termios raw_{};
    bool is_terminal_;
};

struct Look {
    status::JobView view;
    std::optional<record::Attempt> attempt;  // that runs
    std::vector<status::LiveNode> nodes;
    bool ended = false;
};

base::Error nothing_to_see(const Look& seen) {
    const std::string name = seen.view.job.key.job;
    if (seen.ended) return {"the job has ended", name, "`batchai job show` says what it has used"};
    if (!seen.attempt)
        return {"no attempt of the job runs", name, "leave out --once to wait for one"};
    return {"the job's nodes have not told yet what it uses", name,
            "no step of the job runs at this moment, or BATCHAI_USAGE_INTERVAL is 0 in the job's "
            "environment or in site.lua, or the nodes have an older release of batchai"};
}

base::Result<Look> look(status::JobWatch& watch, const record::JobFiles& files) {
    Look out{.view = TRY(watch.look()), .attempt = {}, .nodes = {}};
    auto attempt = TRY(record::latest_attempt(files));
    const bool over = attempt && attempt->end;
    out.ended = out.view.ended();
    // Nodes that were killed could not remove what they were asked for.
    if (out.ended && attempt) record::forget_live_usage(files, attempt->number);
    if (out.ended || !attempt || over) return out;
    TRY(record::ask_for_live_usage(files));
    out.nodes =
        status::live_nodes(record::newest_usage(files, attempt->number, {}, status::live_samples),
                           *attempt, base::now());
    out.attempt = std::move(attempt);
    return out;
}

// Live samples have the threads of the ranks.
bool is_live(const status::LiveNode& node) {
    return node.cpu_percent &&
           std::all_of(node.ranks.begin(), node.ranks.end(),
                       [](const status::LiveRank& rank) { return rank.threads; });
}

// The samples in the record may be some minutes old, so newer ones are waited for.
base::Result<Look> look_once(status::JobWatch& watch, const record::JobFiles& files, Keys& keys) {
    const auto deadline = Clock::now() + longest_wait_for_samples;
    while (true) {
        Look seen = TRY(look(watch, files));
        const bool all = !seen.nodes.empty() &&
                         std::all_of(seen.nodes.begin(), seen.nodes.end(), [](const auto& node) {
                             return is_live(node) && node.age < record::live_usage_seconds;
                         });
        if (all || seen.ended || !seen.attempt || seen.view.suspended() ||
            Clock::now() >= deadline) {
            if (seen.nodes.empty()) return tl::unexpected(nothing_to_see(seen));
            return seen;
        }
        if (keys.leaves_by(Clock::now() + milliseconds(300)))
            return base::fail("interrupted", "batchai job top");
    }
}

std::string head_line(const Look& seen) {
    std::string state(seen.view.suspended() ? "suspended" : slurm::to_string(seen.view.state));
    if (seen.attempt && !seen.attempt->phases.empty())
        state += fmt::format(", phase \"{}\"", seen.attempt->phases.back().name);
    if (seen.nodes.empty()) state += "; no step has told yet what it uses";
    const std::string line =
        fmt::format("{}  {}  Slurm job {}  {}", base::to_iso8601_seconds(base::now()),
                    seen.view.job.key.job, seen.view.job.slurm_job_id, state);
    return base::printable_line(line) + '\n';
}

Answer show_once(status::JobWatch& watch, const record::JobFiles& files,
                 const JobTopOptions& options, status::TopOrder order) {
    Keys keys(false);
    const Look seen = TRY(look_once(watch, files, keys));
    const bool formatted = options.output.count() > 0 || options.query.count() > 0;
    if (!formatted) {
        const std::string text = head_line(seen) + '\n' + status::top_text(seen.nodes, order, {});
        return Outcome{.exit_code = print_bytes(text) ? 0 : 1};
    }
    const record::Attempt& attempt = *seen.attempt;
    Value value = Value::Object{
        {"name", seen.view.job.key.job},
        {"slurmJobId", seen.view.job.slurm_job_id},
        {"attempt", attempt.number},
        {"phase", attempt.phases.empty() ? Value() : Value(attempt.phases.back().name)},
        {"nodes", status::to_value(seen.nodes)}};
    const auto columns = [](const Value& shown) { return generic_table(shown["nodes"], false); };
    return Outcome{std::move(value), columns};
}

// Returns the text for the screen, as watch(1) draws it: each line is overwritten, and what is left
// is erased. Lines are cut, because the terminal would break them.
std::string redrawn(const std::string& text, std::size_t width) {
    std::string out = "\x1b[H";
    std::size_t column = 0;
    for (const char c : text) {
        const bool begins = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
        if (c == '\n') {
            out += "\x1b[K\n";
            column = 0;
            continue;
        }
        if (begins) ++column;
        if (width == 0 || column <= width) out += c;
    }
    return out + "\x1b[J";
}

// Returns true if the user wants to leave before that time. Until then the nodes are asked for
// samples, which they stop to give after a while.
bool leaves_by(Clock::time_point time, Keys& keys, const record::JobFiles& files) {
    constexpr seconds pause{record::live_usage_seconds / 2};
    while (Clock::now() + pause < time) {
        if (keys.leaves_by(Clock::now() + pause)) return true;
        if (!record::ask_for_live_usage(files)) break;  // the next look says why
    }
    return keys.leaves_by(time);
}

Answer show_live(status::JobWatch& watch, const record::JobFiles& files,
                 const JobTopOptions& options, status::TopOrder order) {
    const bool screen = isatty(STDOUT_FILENO) != 0;
    Keys keys(screen);
    bool first = true;
    while (true) {
        const auto next = Clock::now() + seconds(options.interval);
        const Look seen = TRY(look(watch, files));
        if (seen.ended) {
            say(fmt::format("the job has ended; `batchai job show --name {}` says what it has used",
                            seen.view.job.key.job));
            return Outcome{};
        }
        const std::string head = head_line(seen);
        const status::TopSize size = screen ? size_of_terminal(3) : status::TopSize{};
        const std::string tables =
            seen.nodes.empty() ? "" : status::top_text(seen.nodes, order, size);
        std::string text;
        if (screen) {
            text = redrawn(fmt::format("{}\n{}", head, tables), size.width);
            if (std::exchange(first, false)) text.insert(0, "\x1b[2J");
        } else if (!seen.nodes.empty()) {
            text = fmt::format("{}\n{}\n", head, tables);
        }
        if (!print_bytes(text) || leaves_by(next, keys, files)) return Outcome{};
    }
}

Answer job_top(const JobTopOptions& options) {
    const auto key = TRY(key_of(options.job, "top")).key;
    const status::TopOrder order = TRY(status::top_order(options.sort));
    const auto here = TRY(open_context());
    const LogPlace place = TRY(log_place(here, key, options.job.task));
    const Interruption interruption;
    status::JobWatch watch(here.store, here.slurm, key, slurm_pause, options.job.task);
    const bool formatted = options.output.count() > 0 || options.query.count() > 0;
    return options.once || formatted ? show_once(watch, place.files, options, order)
                                     : show_live(watch, place.files, options, order);
}

}  // namespace

const Verbs job_top_verbs("job", 50, [](CommandTree& tree, Parser job) {
    auto [leaf, options] =
        add_verb(tree, job, "top", "Show what a running job uses on each node, and each rank",
                 "batchai job top train\n"
                 "  batchai job top train --sort memory --interval 5\n"
                 "  batchai job top train --once --output json",
                 job_top);
    add_optional(leaf, "job", options->job.word, "Name of the job").type_name("NAME");
    add_optional(leaf, "--name,-n", options->job.option, "Name of the job, instead of the word")
        .type_name("NAME")
        .group(resource_arguments);
    add_experiment_option(leaf, options->job.parents);
    add_optional(leaf, "--task", options->job.task, "The task of an array job")
        .type_name("NUMBER")
        .non_negative();
    leaf.add_option("--interval", options->interval, "Time between two tables [2]")
        .type_name("SECONDS")
        .between(1, 3600);
    leaf.add_option("--sort", options->sort,
                    "What the lines are sorted by: node, rank, cpu, memory, read, write or "
                    "network [node]")
        .type_name("KEY");
    leaf.add_flag("--once", options->once,
                  "Show one table and exit, as --output and --query also do");
    options->output = leaf.get_option("--output");
    options->query = leaf.get_option("--query");
});

}  // namespace batchai::cli

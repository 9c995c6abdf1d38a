// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/job_follow.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include "base/standard_error.hpp"
#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "plan/sweep_file.hpp"
#include "status/array_view.hpp"
#include "status/job_view.hpp"
#include "status/output_directory.hpp"

namespace batchai::cli {

namespace {

base::Result<void> check_task(const store::Store& store, const store::Job& job,
                              std::optional<int> task) {
    if (!task)
        return base::fail("this is an array job, and each of its tasks has logs of its own", "",
                          "choose one with --task", base::ExitCode::usage);
    const auto tasks = TRY(status::tasks_of(store, job, {}));
    if (std::binary_search(tasks.begin(), tasks.end(), *task)) return {};
    return base::fail(fmt::format("the job has no task {}", *task), "--task",
                      "its tasks are " + base::number_ranges(tasks), base::ExitCode::not_found);
}

}  // namespace

base::Result<LogPlace> log_place(const Context& here, const store::JobKey& key,
                                 std::optional<int> task) {
    const auto job = TRY(here.store.get<store::Job>(key));
    record::JobFiles files = here.store.job_files(key);
    plan::Plan plan = TRY(status::plan_of_job(here.store, key));
    if (job.is_array) {
        TRY(check_task(here.store, job, task));
        files = files.array_task(*task);
        plan = TRY(plan::plan_of_task(plan, *task));
    } else if (task) {
        return tl::unexpected(status::not_an_array(key));
    }
    return LogPlace{.files = std::move(files), .logs = plan.directories.stdouterr_host};
}

namespace {

bool colours() {
    const char* const refused = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

// Colours that can be read on a light and on a dark background.
constexpr std::array<std::string_view, 6> palette{"36", "33", "32", "35", "34", "31"};

std::vector<std::string> prefixes_of(const record::RankPlaces& places,
                                     const std::vector<bool>& ranks) {
    std::size_t widest = 0;
    std::vector<std::string> out;
    for (std::size_t rank = 0; rank < places.nodes.size(); ++rank) {
        out.push_back(status::name_of_rank(places.nodes[rank], rank));
        if (ranks[rank]) widest = std::max(widest, out.back().size());
    }
    const bool coloured = colours();
    for (std::size_t rank = 0; rank < out.size(); ++rank) {
        out[rank] = coloured ? fmt::format("\x1b[{}m{:<{}}\x1b[0m ", palette[rank % palette.size()],
                                           out[rank], widest)
                             : fmt::format("{:<{}} ", out[rank], widest);
    }
    return out;
}

}  // namespace

status::JobLogReader::MakePrinter printer_to_output(Prefixes prefixes) {
    // A later start may have fewer ranks, but the lines still have to be told apart.
    return [prefixes, several = false](const record::RankPlaces& places,
                                       const std::vector<bool>& ranks) mutable {
        several = several || std::count(ranks.begin(), ranks.end(), true) > 1;
        const bool wanted =
            prefixes == Prefixes::always || (prefixes == Prefixes::several && several);
        return status::LogPrinter(wanted ? prefixes_of(places, ranks) : std::vector<std::string>(),
                                  print_bytes);
    };
}

base::Result<status::Followed> follow_logs(status::JobWatch& watch, status::JobLogReader& reader,
                                           status::JobProgress& progress) {
    return status::follow(watch, [&](const status::JobView& view) -> base::Result<status::Step> {
        if (!view.ended()) progress.look(view);
        const auto found = TRY(reader.pump(view.ended()));
        if (found == status::JobLogReader::Found::stopped) return status::Step::stop;
        if (found == status::JobLogReader::Found::more) return status::Step::more;
        if (view.ended()) progress.look(view);
        return found == status::JobLogReader::Found::something_new ? status::Step::something_new
                                                                   : status::Step::nothing_new;
    });
}

namespace {

enum class Wish { leave, end };

// Asks until there is an answer. The end of the input and a second Ctrl-C are one, too.
Wish ask_what_becomes_of_the_job() {
    if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) return Wish::leave;
    Interruption::forget();
    while (true) {
        base::print_error("\nLeave the job running, or end it? (l/e): ");
        std::array<char, 256> line{};
        std::array<pollfd, 1> input{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}}};
        const ssize_t count = Interruption::poll(input, std::nullopt) > 0
                                  ? ::read(STDIN_FILENO, line.data(), line.size())
                                  : 0;
        if (count <= 0) {
            base::print_error("\n");
            return Wish::leave;
        }
        const auto answer = base::lower(base::trim({line.data(), static_cast<std::size_t>(count)}));
        if (answer == "l" || answer == "leave") return Wish::leave;
        if (answer == "e" || answer == "end") return Wish::end;
    }
}

std::string command_to_come_back(const store::JobKey& key) {
    std::string command = "batchai job logs " + key.job + " --follow";
    if (key.group != "default" || key.workspace != "default" || key.experiment != "default")
        command += fmt::format(" -g {} -w {} -e {}", key.group, key.workspace, key.experiment);
    return command;
}

}  // namespace

base::Result<int> follow_new_job(const Context& here, const store::Job& job) {
    const LogPlace place = TRY(log_place(here, job.key, std::nullopt));
    status::JobLogReader reader(place.files, place.logs, status::LogChoice{}, std::nullopt,
                                printer_to_output(Prefixes::several));
    status::JobWatch watch(here.store, here.slurm, job.key, slurm_pause);
    status::JobProgress progress;
    status::Followed followed = TRY(follow_logs(watch, reader, progress));
    if (!followed.view.ended() && !followed.stopped && ask_what_becomes_of_the_job() == Wish::end) {
        say("ending the job");
        TRY(status::stop_jobs(here.store, here.slurm, {job}, true));
        Interruption::forget();
        followed = TRY(follow_logs(watch, reader, progress));
    }
    if (followed.stopped) return 0;
    if (followed.view.ended()) return status::say_end(followed.view);
    const int exit_code = status::say_interrupted(followed.view);
    say("follow it again: " + command_to_come_back(job.key));
    return exit_code;
}

}  // namespace batchai::cli

// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/visit.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "record/rank_logs.hpp"
#include "record/step_variables.hpp"
#include "run/srun/srun_arguments.hpp"
#include "slurm/this_job.hpp"
#include "spank/protocol.h"

namespace batchai::visit {

namespace {

using Names = std::vector<std::string>;

base::Result<std::string> node_named(const Names& nodes, const std::string& name) {
    if (std::find(nodes.begin(), nodes.end(), name) != nodes.end()) return name;
    const std::vector<std::string_view> views(nodes.begin(), nodes.end());
    const auto guess = base::nearest(name, views);
    return base::fail(
        fmt::format("Cannot find a node with id={}{}", name,
                    guess ? fmt::format("; did you mean \"{}\"?", *guess) : std::string()),
        {}, fmt::format("the job's nodes are {}", fmt::join(nodes, ", ")),
        base::ExitCode::not_found);
}

// Returns the places of the ranks that run now, or nothing if there are none or no record of them.
std::optional<record::RankPlaces> places_now(const RunningJob& running) {
    if (!running.attempt) return std::nullopt;
    const auto& attempt = *running.attempt;
    const auto start = attempt.restarts.empty()
                           ? std::to_string(attempt.number)
                           : fmt::format("{}-{}", attempt.number, attempt.restarts.size());
    auto places = record::read_rank_places(running.files, start);
    if (!places || places->nodes.empty()) return std::nullopt;
    return std::move(*places);
}

// Returns the value of BATCHAI_AS_RANK.
std::string numbers_of_rank(const Names& of_ranks, std::size_t rank, const Names& nodes) {
    Names used;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(used),
                 [&](const std::string& node) {
                     return std::find(of_ranks.begin(), of_ranks.end(), node) != of_ranks.end();
                 });
    const std::string& node = of_ranks[rank];
    const auto here = of_ranks.begin() + static_cast<std::ptrdiff_t>(rank);
    return fmt::format("{} {} {} {} {} {}", rank, std::count(of_ranks.begin(), here, node),
                       of_ranks.size(), std::count(of_ranks.begin(), of_ranks.end(), node),
                       std::find(used.begin(), used.end(), node) - used.begin(), used.size());
}

base::Result<VisitedNode> node_of_rank(const RunningJob& running, int rank) {
    const auto places = places_now(running);
    if (!places)
        return base::fail("the ranks of the job have not started yet", running.job.key.job,
                          "choose a node with --node", base::ExitCode::not_found);
    const Names& nodes = places->nodes;
    const auto index = static_cast<std::size_t>(rank);
    if (rank < 0 || index >= nodes.size())
        return base::fail(fmt::format("there is no rank {}", rank), running.job.key.job,
                          nodes.size() == 1
                              ? std::string("the job has rank 0 only")
                              : fmt::format("the job has the ranks 0 to {}", nodes.size() - 1),
                          base::ExitCode::not_found);
    if (nodes[index].empty())
        return base::fail(
            fmt::format("the node of rank {} is not known", rank), running.job.key.job,
            fmt::format("choose one of {} with --node", fmt::join(running.nodes, ", ")),
            base::ExitCode::not_found);
    return VisitedNode{.node = nodes[index],
                       .as_rank = numbers_of_rank(nodes, index, running.nodes)};
}

bool is_of(std::string_view entry, const base::Environment& variables) {
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    return std::any_of(variables.begin(), variables.end(),
                       [&](std::string_view other) { return other.starts_with(name); });
}

}  // namespace

bool is_running(const status::JobView& job_view) {
    const auto& slurm = job_view.evidence.slurm;
    return job_view.state == slurm::ExecutionState::running && slurm &&
           slurm->state == slurm::JobState::running && !slurm->nodes.empty();
}

base::Error not_running(const status::JobView& job_view) {
    std::string state(slurm::to_string(job_view.state));
    if (const auto& slurm = job_view.evidence.slurm) {
        state += fmt::format(" (Slurm job {}: {}{}{})", slurm->id, slurm->state_text,
                             slurm->reason.empty() ? "" : ", ", slurm->reason);
    }
    if (job_view.suspended())
        return {fmt::format("nothing can be started in the job: it is {}", state),
                job_view.job.key.job, "try again when Slurm lets it go on (\"scontrol resume\")",
                base::ExitCode::failed};
    return {fmt::format("the job is not running, so there is nothing to enter: it is {}", state),
            job_view.job.key.job,
            {},
            base::ExitCode::failed};
}

base::Result<RunningJob> running_job(const store::Store& store, const slurm::Client& client,
                                     const store::JobKey& key, std::optional<int> task) {
    return running_job(store, TRY(status::view_job(store, client, key, task)));
}

base::Result<RunningJob> running_job(const store::Store& store, const status::JobView& job_view) {
    if (!is_running(job_view)) return tl::unexpected(not_running(job_view));
    return RunningJob{
        .job = job_view.job,
        .task = job_view.task,
        .slurm_id = job_view.task ? job_view.evidence.slurm->id : job_view.job.slurm_job_id,
        .attempt = job_view.attempt,
        .nodes = job_view.evidence.slurm->nodes,
        .files = status::files_of(store, job_view.job.key, job_view.task),
        .plan_files = store.job_files(job_view.job.key)};
}

base::Result<VisitedNode> choose_node(const RunningJob& running, const NodeChoice& choice) {
    if (choice.rank) return node_of_rank(running, *choice.rank);
    if (choice.node)
        return VisitedNode{.node = TRY(node_named(running.nodes, *choice.node)), .as_rank = {}};
    const auto places = places_now(running);
    const bool known = places && !places->nodes.front().empty();
    return VisitedNode{.node = known ? places->nodes.front() : running.nodes.front(),
                       .as_rank = {}};
}

void say_which_node(const RunningJob& running, const NodeChoice& choice, const std::string& node) {
    if (choice.node || choice.rank || running.nodes.size() == 1) return;
    cli::say(fmt::format("on {}, one of the job's nodes {}; --node or --rank chooses another", node,
                         fmt::join(running.nodes, ", ")));
}

base::Environment visit_environment(const RunningJob& running,
                                    const std::optional<std::string>& as_rank) {
    base::Environment additions{
        fmt::format("{}={}", BATCHAI_PLAN_VARIABLE, running.plan_files.plan().string()),
        fmt::format("{}={}", BATCHAI_DIGEST_VARIABLE, running.job.plan_digest)};
    if (as_rank)
        additions.push_back(fmt::format("{}={}", BATCHAI_AS_RANK_VARIABLE, *as_rank));
    else
        additions.push_back(
            fmt::format("{}={}", BATCHAI_RANK_VARIABLES_VARIABLE, BATCHAI_NO_RANKS));
    if (const auto of_steps = record::read_step_variables(running.files)) {
        for (const std::string& entry : *of_steps) {
            const bool of_ranks = entry.starts_with(BATCHAI_MASTER_VARIABLE "=") ||
                                  entry.starts_with(BATCHAI_RANK_VARIABLES_VARIABLE "=");
            if (!of_ranks || (as_rank && entry.starts_with(BATCHAI_MASTER_VARIABLE "=")))
                additions.push_back(entry);
        }
    } else {
        additions.push_back(
            BATCHAI_SLURM_JOB_VARIABLE "=" +
            slurm::text_for_plugin({.job_id = running.slurm_id, .array_task = running.task}));
        cli::say(
            "warning: AZ_BATCH_HOST_LIST and the other variables of the job's nodes are not set: " +
            of_steps.error().text());
    }
    base::Environment environment = bare_environment();
    std::erase_if(environment, [&](const std::string& entry) { return is_of(entry, additions); });
    environment.insert(environment.end(), additions.begin(), additions.end());
    return environment;
}

base::Environment bare_environment() {
    base::Environment environment = slurm::scrubbed_environment();
    std::erase_if(environment, [](const std::string& entry) {
        return entry.starts_with(BATCHAI_DISABLE_VARIABLE "=");
    });
    return environment;
}

namespace {

volatile std::sig_atomic_t foreground_process = 0;

// The terminal sends its signals to srun as well, but for that of its end: it tells the first
// process of a session only, which is this one under `ssh -t HOST batchai job shell`. A signal that
// somebody has sent to this process alone is passed on.
void pass_on_signal(int number, siginfo_t* info, void* /*context*/) {
    if ((number == SIGHUP || info->si_code <= 0) && foreground_process > 0)
        kill(static_cast<pid_t>(foreground_process), number);
}

// While an instance exists, signals that would end this program go to srun instead.
class PassedOnSignals {
  public:
    PassedOnSignals() {
        struct sigaction action {};
        action.sa_sigaction = pass_on_signal;
        action.sa_flags = SA_SIGINFO | SA_RESTART;
        sigemptyset(&action.sa_mask);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            sigaction(numbers[i], nullptr, &before_[i]);
            // What this program ignores, srun ignores as well.
            if (before_[i].sa_handler != SIG_IGN) sigaction(numbers[i], &action, nullptr);
        }
    }
    ~PassedOnSignals() {
        foreground_process = 0;
        for (std::size_t i = 0; i < numbers.size(); ++i)
            sigaction(numbers[i], &before_[i], nullptr);
    }
    PassedOnSignals(const PassedOnSignals&) = delete;
    PassedOnSignals& operator=(const PassedOnSignals&) = delete;

  private:
    static constexpr std::array numbers{SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    std::array<struct sigaction, numbers.size()> before_{};
};

constexpr std::chrono::seconds look_at_job{1};

}  // namespace

base::Result<int> run_in_foreground(base::Arguments arguments, base::Environment environment,
                                    const std::function<bool()>& is_over) {
    std::fflush(stdout);
    std::fflush(stderr);
    const PassedOnSignals signals;
    base::Child srun = TRY(base::Child::start({.arguments = std::move(arguments),
                                               .environment = std::move(environment),
                                               .signals = base::Signals::inherited,
                                               .missing_hint = run::no_srun_hint}));
    foreground_process = srun.process();
    bool told = false;
    while (true) {
        const auto status = srun.ended_by(std::chrono::steady_clock::now() + look_at_job);
        if (status) return base::shell_exit_code(*status);
        if (told || !is_over()) continue;
        told = true;
        srun.signal(SIGTERM);
    }
}

}  // namespace batchai::visit

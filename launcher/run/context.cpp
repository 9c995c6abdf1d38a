// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/context.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.hpp"
#include "plan/slurm_options.hpp"
#include "record/step_variables.hpp"
#include "run/again/hosts.hpp"
#include "spank/protocol.h"

namespace batchai::run {

std::optional<std::string> from_environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
}

base::Result<void> check_size(const slurm::ThisJob& granted, const plan::Plan& plan) {
    const plan::Allocation& asked = plan.allocation;
    if (static_cast<int>(granted.nodes.size()) == asked.all_nodes()) return {};
    return base::fail(
        fmt::format("the allocation has {} nodes, the job file asks for {}{}", granted.nodes.size(),
                    asked.all_nodes(),
                    asked.spare_nodes > 0 ? fmt::format(", {} of them spare", asked.spare_nodes)
                                          : std::string()),
        "batchai run", "leave --nodes out, or make nodeCount the same", base::ExitCode::usage);
}

Journal::Journal(record::JobFiles files, record::Attempt attempt)
    : files_(std::move(files)), attempt_(std::move(attempt)) {}

void Journal::begin_phase(std::string_view name) {
    attempt_.phases.push_back(
        {.name = std::string(name), .start = base::now(), .end = {}, .exit_code = 0});
    save();
}

void Journal::end_phase(int exit_code) {
    attempt_.phases.back().end = base::now();
    attempt_.phases.back().exit_code = exit_code;
}

void Journal::software_set_up(record::Software software) {
    attempt_.software = std::move(software);
}

void Journal::restarted(record::Restart restart) {
    attempt_.restarts.push_back(std::move(restart));
    save();
}

void Journal::lost(record::Loss loss) {
    attempt_.losses.push_back(std::move(loss));
    save();
}

void Journal::alarmed(record::Alarm alarm) {
    constexpr std::size_t most_alarms = 100;
    if (attempt_.alarms.size() >= most_alarms) return;
    attempt_.alarms.push_back(std::move(alarm));
    save();
}

void Journal::ending(record::EndedBy by, const record::Failure& failure) {
    attempt_.failure = failure;
    attempt_.ended_by = by;
    save();
}

void Journal::retried(record::Retried retried) {
    attempt_.retried = std::move(retried);
    save();
}

void Journal::warned(std::vector<std::string> warnings) {
    attempt_.warnings = std::move(warnings);
}

void Journal::finish(int exit_code, record::EndedBy by, const record::Failure* failure) {
    attempt_.failure = failure != nullptr ? std::optional(*failure) : std::nullopt;
    attempt_.end = base::now();
    attempt_.exit_code = exit_code;
    attempt_.ended_by = by;
    save();
}

void Journal::save() {
    auto saved = base::make_directories(files_.attempts()).and_then([&] {
        return base::write_atomically(files_.attempt(attempt_.number), to_json(attempt_));
    });
    is_saved_ = saved.has_value();
    if (!saved) std::fprintf(stderr, "batchai: warning: %s\n", saved.error().text().c_str());
}

std::vector<std::string> addresses_by_name(const std::vector<std::string>& nodes) {
    std::vector<std::string> addresses;
    for (const std::string& node : nodes)
        addresses.push_back(base::address_of(node));
    return addresses;
}

Place place_on(std::vector<std::string> nodes, int restarts, std::vector<std::string> spares,
               const AddressesOf& addresses_of) {
    Place place{.nodes = std::move(nodes),
                .addresses = {},
                .restarts = restarts,
                .spares = std::move(spares)};
    place.addresses = addresses_of(place.nodes);
    return place;
}

Place first_place(const plan::Allocation& asked, const std::vector<std::string>& granted,
                  const AddressesOf& addresses_of) {
    const auto spares = granted.begin() + asked.nodes;
    return place_on({granted.begin(), spares}, 0, {spares, granted.end()}, addresses_of);
}

const plan::Step* Context::step(plan::StepKind kind) const {
    const auto found = std::find_if(plan.steps.begin(), plan.steps.end(),
                                    [&](const plan::Step& step) { return step.kind == kind; });
    return found == plan.steps.end() ? nullptr : &*found;
}

const plan::Step* Context::main_step() const {
    const plan::Step* const ranks = step(plan::StepKind::ranks);
    return ranks != nullptr ? ranks : step(plan::StepKind::master);
}

plan::Step Context::main_step_here() const {
    return shrunk(*main_step(), place.nodes.size());
}

namespace {

constexpr const char* distribution_variable = "SLURM_DISTRIBUTION";

}  // namespace

base::Environment layout_variables(const plan::Plan& plan, const Lookup& environment) {
    const auto distribution = plan::distribution_of_ranks(plan);
    if (!distribution) return {};
    // The option of sbatch, srun or salloc may be the user's own. Slurm tells it in this variable.
    return {distribution_variable +
            ('=' + environment(distribution_variable).value_or(*distribution))};
}

record::RankPlaces Context::rank_places() const {
    const plan::Step step = main_step_here();
    base::Environment layout;
    if (step.kind == plan::StepKind::ranks) layout = layout_variables(plan, from_environment);
    std::string_view distribution;
    if (!layout.empty())
        distribution = std::string_view(layout.front()).substr(layout.front().find('=') + 1);
    return record::places_of_ranks(place.nodes, step.processes, distribution);
}

bool Context::keeps_processes() const {
    return elastic && elastic->keeps_processes && main_step() != nullptr &&
           !contains(rank_places().nodes, "");
}

std::vector<std::string> Context::to_name(const std::vector<std::string>& nodes) const {
    return nodes.size() == granted.nodes.size() ? std::vector<std::string>() : nodes;
}

std::vector<std::string> Context::ready_nodes() const {
    std::vector<std::string> out;
    for (const std::string& node : granted.nodes) {
        if (contains(place.nodes, node) || contains(place.spares, node)) out.push_back(node);
    }
    return out;
}

std::string Context::start() const {
    return place.restarts == 0 ? std::to_string(attempt())
                               : fmt::format("{}-{}", attempt(), place.restarts);
}

std::string Context::rank_output_file(const std::string& rank) const {
    return files().rank_output(start(), rank).string();
}

std::string Context::rank_error_file(const std::string& rank) const {
    return files().rank_error(start(), rank).string();
}

void Context::remove_rank_files(const std::string& rank) const {
    std::error_code ignored;
    for (const std::string& file : {rank_output_file(rank), rank_error_file(rank)})
        std::filesystem::remove(file, ignored);
}

std::string output_directory(const plan::Plan& plan) {
    const auto& directories = plan.directories;
    return directories.stdouterr_host.empty() ? directories.stdouterr : directories.stdouterr_host;
}

namespace {

// Where the ranks meet.
std::string master_variable(const Context& context) {
    return fmt::format(BATCHAI_MASTER_VARIABLE "={} {}", context.place.addresses.front(),
                       context.ports.ranks->number());
}

}  // namespace

base::Environment job_variables(const slurm::ThisJob& job, const Lookup& environment) {
    base::Environment out{BATCHAI_SLURM_JOB_VARIABLE "=" + slurm::text_for_plugin(job)};
    if (job.restart > 0) out.push_back(fmt::format("SLURM_RESTART_COUNT={}", job.restart));
    if (!job.array_task) return out;
    out.push_back("SLURM_ARRAY_JOB_ID=" + job.array_id);
    out.push_back(fmt::format("SLURM_ARRAY_TASK_ID={}", *job.array_task));
    // In the batch script of an array job, Slurm has set these itself.
    for (const char* name : {"SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
                             "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP"}) {
        if (const auto value = environment(name)) out.push_back(fmt::format("{}={}", name, *value));
    }
    return out;
}

namespace {

// Programs ask these variables whether they have run before, and have a checkpoint to continue
// from.
void add_restarts(base::Environment& out, const Context& context, plan::StepKind kind) {
    const int in_allocation = context.earlier_restarts + context.place.restarts;
    if (in_allocation == 0 || kind == plan::StepKind::preparation) return;
    const int restarts = context.granted.restart + in_allocation;
    std::erase_if(out, [](const std::string& variable) {
        return variable.starts_with("SLURM_RESTART_COUNT=");
    });
    out.push_back(fmt::format("SLURM_RESTART_COUNT={}", restarts));
    if (kind == plan::StepKind::ranks && !from_environment("TORCHELASTIC_RESTART_COUNT"))
        out.push_back(fmt::format("TORCHELASTIC_RESTART_COUNT={}", restarts));
}

// Ranks that go on in their processes must not wait for long for a host without power, and cannot
// go on without one that lives: RankLosses knows better.
constexpr const char* host_timeout_variable = "MPI_BRIDGE_HOST_TIMEOUT_SECONDS";
constexpr std::chrono::seconds short_host_timeout{4};

}  // namespace

base::Environment step_environment(const Context& context, plan::StepKind kind) {
    const std::vector<std::string>& addresses = context.place.addresses;
    const std::string& first = addresses.front();
    base::Environment out{BATCHAI_PLAN_VARIABLE "=" + context.options.plan_path,
                          BATCHAI_DIGEST_VARIABLE "=" + context.options.digest,
                          fmt::format("AZ_BATCH_HOST_LIST={}", fmt::join(addresses, ",")),
                          "AZ_BATCHAI_MPI_MASTER_NODE=" + first,
                          "AZ_BATCHAI_JOB_MASTER_NODE_IP=" + first};
    for (std::string& variable : job_variables(context.granted, from_environment))
        out.push_back(std::move(variable));
    add_restarts(out, context, kind);
    if (context.ports.job)
        out.push_back(
            fmt::format("AZ_BATCH_MASTER_NODE={}:{}", first, context.ports.job->number()));
    if (kind == plan::StepKind::ranks && context.elastic) {
        out.push_back(BATCHAI_ELASTIC_DIRECTORY_VARIABLE "=" + context.files().elastic().string());
        out.push_back(BATCHAI_ELASTIC_START_VARIABLE "=" + context.start());
        out.emplace_back(BATCHAI_HOROVOD_ELASTIC_VARIABLE "=1");
        if (context.keeps_processes() &&
            plan::last_value(context.plan.environment, host_timeout_variable) == nullptr)
            out.push_back(fmt::format("{}={}", host_timeout_variable, short_host_timeout.count()));
    }
    if (kind == plan::StepKind::ranks) {
        for (std::string& variable : layout_variables(context.plan, from_environment))
            out.push_back(std::move(variable));
    }
    if (kind == plan::StepKind::preparation)
        out.emplace_back(BATCHAI_IDENTITY_VARIABLE "=" BATCHAI_IDENTITY_ROOT);
    // The plugin derives the ranks' RANK, MASTER_PORT, … from these variables. A process that runs
    // once per node, or once for the whole job, is not a rank, and a WORLD_SIZE would mislead it.
    if (kind != plan::StepKind::ranks)
        out.emplace_back(BATCHAI_RANK_VARIABLES_VARIABLE "=" BATCHAI_NO_RANKS);
    else if (context.ports.ranks)
        out.push_back(master_variable(context));
    return out;
}

base::Environment report_variables(const record::JobFiles& files, const std::string& step) {
    return {BATCHAI_REFUSALS_VARIABLE "=" + files.refusals(step).string(),
            BATCHAI_FAILURE_RECORD_VARIABLE "=" + files.rank_failures(step).string()};
}

std::string starts_variable(const std::string& step) {
    return BATCHAI_STARTS_VARIABLE "=" + step;
}

ExpectedStarts starts_on_nodes(const Context& context, std::string step,
                               std::vector<std::string> error_files) {
    return {.files = context.files(),
            .step = std::move(step),
            .nodes = static_cast<int>(context.ready_nodes().size()),
            .node_of_task = context.ready_nodes(),
            .error_files = std::move(error_files)};
}

base::Environment usage_variables(const std::string& step) {
    base::Environment out{BATCHAI_USAGE_VARIABLE "=" + step};
    if (const auto of_node = from_environment("SLURM_MEM_PER_NODE"))
        out.push_back(BATCHAI_MEM_PER_NODE_VARIABLE "=" + *of_node);
    else if (const auto of_cpu = from_environment("SLURM_MEM_PER_CPU"))
        out.push_back(BATCHAI_MEM_PER_CPU_VARIABLE "=" + *of_cpu);
    return out;
}

std::string host_file(const std::vector<std::string>& addresses, int slots) {
    std::string out;
    for (const std::string& address : addresses)
        out += fmt::format("{0} slots={1} max_slots={1}\n", address, slots);
    return out;
}

base::Result<void> write_host_file(const Context& context) {
    const int slots = std::max(1, context.plan.allocation.processes_per_node);
    TRY(base::write_atomically(context.files().host_file(),
                               host_file(context.place.addresses, slots)));
    base::Environment variables = step_environment(context, plan::StepKind::master);
    // For a step that looks at a rank.
    if (context.ports.ranks) variables.push_back(master_variable(context));
    return record::write_step_variables(context.files(), variables);
}

}  // namespace batchai::run

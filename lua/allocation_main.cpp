// SPDX-License-Identifier: GPL-2.0-or-later
//
// batchai-allocation: which allocation a job file asks for, as lines "option=value" with the names
// of sbatch's long options. Plans exactly as the submission does, and changes nothing.

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/report/planning.hpp"
#include "cli/verbs/surroundings.hpp"
#include "job/syntax/diagnostic.hpp"

namespace {

using batchai::base::ExitCode;
using batchai::base::Result;

void print_text(std::string_view option, const std::string& value) {
    if (!value.empty()) fmt::print("{}={}\n", option, value);
}

void print_number(std::string_view option, long value) {
    if (value > 0) fmt::print("{}={}\n", option, value);
}

void print_allocation(const batchai::plan::Allocation& allocation) {
    print_number("nodes", allocation.nodes);
    print_number("ntasks", allocation.processes);
    print_number("ntasks-per-node", allocation.processes_per_node);
    print_number("cpus-per-task", allocation.cpus_per_process);
    print_number("time", allocation.time_limit.count());
    print_text("partition", allocation.partition);
    print_text("constraint", allocation.constraint);
    print_text("gres", allocation.gres);
    print_text("account", allocation.account);
    print_text("qos", allocation.qos);
    if (allocation.exclusive) print_text("exclusive", "exclusive");
}

Result<int> plan_and_print(const batchai::cli::JobFileOptions& options) {
    namespace cli = batchai::cli;
    const auto here = cli::open_surroundings();
    if (!here) return tl::unexpected<batchai::base::Error>(here.error());
    const auto text = cli::read_job_file(options.path);
    if (!text) return tl::unexpected<batchai::base::Error>(text.error());
    batchai::plan::Identity identity;
    identity.subscription = here->site.subscription;
    identity.job = cli::job_name_from_file(options.path);
    identity.uuid = "00000000-0000-0000-0000-000000000000";
    const auto planning = cli::plan_job(here->store, here->site, *text, options, {{}, false},
                                        identity, "/nonexistent");
    if (!planning) return tl::unexpected<batchai::base::Error>(planning.error());
    if (!planning->planned) {
        fmt::print(stderr, "{}", planning->report);
        return static_cast<int>(ExitCode::bad_job_file);
    }
    // Warnings are left to the hand-over that follows, which prints the same ones.
    print_allocation(planning->planned->plan.allocation);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        CLI::App app("Says which allocation a job file asks for", "batchai-allocation");
        batchai::cli::JobFileOptions options;
        app.add_option("--job-json", options.path)->required();
        app.add_flag("--ignore-container", options.ignore_container);
        app.add_option("--job-image", options.job_image);
        CLI11_PARSE(app, argc, argv);
        const auto done = plan_and_print(options);
        if (done) return *done;
        fmt::print(stderr, "batchai: error: {}\n", done.error().text());
        return static_cast<int>(done.error().exit_code);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "batchai: error: %s\n", error.what());
        return static_cast<int>(ExitCode::failed);
    }
}

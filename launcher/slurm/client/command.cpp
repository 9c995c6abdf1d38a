// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "slurm/client.hpp"
#include "slurm/messages.hpp"
#include "slurm/own_environment.hpp"

// How a command of Slurm's is run: its environment, and how long it is waited for.
namespace batchai::slurm {

namespace {

using base::Result;

// With this environment Slurm's commands print times as UTC in one format, and messages in English.
base::Environment reading_environment() {
    base::Environment environment = scrubbed_environment();
    const auto replaced = [](const std::string& entry) {
        return entry.starts_with("TZ=") || entry.starts_with("LC_") || entry.starts_with("LANG");
    };
    environment.erase(std::remove_if(environment.begin(), environment.end(), replaced),
                      environment.end());
    environment.insert(environment.end(), {"TZ=UTC0", "LC_ALL=C", "SLURM_TIME_FORMAT=standard",
                                           // Lists of array tasks are not cut.
                                           "SLURM_BITSTR_LEN=0"});
    return environment;
}

// After this time without an answer, the controller is asked whether it answers at all.
constexpr std::chrono::milliseconds patience{1000};
// A controller that has much to do takes some seconds even for a ping. Together with `patience` and
// the time to start the programs, less than five seconds.
constexpr std::chrono::milliseconds ping_deadline{3000};

bool says(const base::Completed& completed, std::string_view text) {
    return completed.standard_error.find(text) != std::string::npos;
}

tl::unexpected<base::Error> controller_is_silent() {
    return base::fail("Slurm's controller does not answer", "slurmctld",
                      "see \"scontrol ping\", and try again when it says UP, or ask the "
                      "administrator");
}

// What sacct says if slurmdbd or its database cannot be reached.
bool has_no_database(const base::Completed& completed) {
    return says(completed, "Problem talking to the database") ||
           says(completed, "failed to open persistent connection");
}

tl::unexpected<base::Error> accounting_is_silent() {
    return base::fail("Slurm's accounting does not answer", "slurmdbd",
                      "see \"sacctmgr show cluster\", and try again when it answers, or ask the "
                      "administrator");
}

}  // namespace

base::Environment scrubbed_environment() {
    base::Environment environment = without_variables_of_a_job(
        base::environment_without({"SLURM_", "_SLURM_", "SPANK_", "SBATCH_", "SQUEUE_", "SINFO_",
                                   "SACCT_", "SALLOC_", "SRUN_", "SCANCEL_", "SCONTROL_"}));
    for (const char* name : {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"}) {
        if (const char* value = std::getenv(name); value != nullptr)
            environment.push_back(fmt::format("{}={}", name, value));
    }
    return environment;
}

Result<base::Completed> Client::ask(const base::Arguments& arguments,
                                    const std::string& standard_input) const {
    base::RunOptions options;
    options.environment = reading_environment();
    options.standard_input = standard_input;
    options.deadline = deadline_;
    options.tick_period = patience;
    if (give_up_early_) {
        options.tick = [this, asked = false]() mutable -> Result<void> {
            if (std::exchange(asked, true)) return {};
            return ping();
        };
    }
    auto completed = TRY(base::run(arguments, options));
    if (completed.exit_code != 0 && says(completed, "Unable to contact slurm controller"))
        return controller_is_silent();
    if (completed.exit_code != 0 && has_no_database(completed)) return accounting_is_silent();
    return completed;
}

Result<std::string> Client::read(const base::Arguments& arguments, Messages harmless) const {
    auto completed = TRY(ask(arguments));
    const bool fine = completed.exit_code == 0 ||
                      std::any_of(harmless.begin(), harmless.end(), [&](std::string_view message) {
                          return says(completed, message);
                      });
    if (!fine) return refused(arguments.front(), completed);
    return std::move(completed.standard_output);
}

Result<void> Client::tell(const base::Arguments& arguments, Messages harmless) const {
    TRY(read(arguments, harmless));
    return {};
}

Result<void> Client::ping() const {
    base::RunOptions options;
    options.environment = reading_environment();
    options.deadline = ping_deadline;
    // scontrol prints a line such as "Slurmctld(primary) at host is UP" for each controller.
    const auto completed = base::run({"scontrol", "ping"}, options);
    const bool silent = completed ? completed->standard_output.find(" is UP") == std::string::npos
                                  : completed.error().exit_code == base::ExitCode::timed_out;
    if (silent) return controller_is_silent();
    TRY(completed);
    return {};
}

}  // namespace batchai::slurm

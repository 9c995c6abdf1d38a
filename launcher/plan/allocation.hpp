// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/record.hpp"

// What a job asks of Slurm.
namespace batchai::plan {

// The nice value for the schedulingPriority normal, which is also that of a file without this key.
constexpr int normal_nice = 100;

// Who has chosen an option of Slurm. These are in the order of precedence: an option of a later
// origin replaces one of an earlier origin.
enum class Origin : std::uint8_t {
    launcher,
    site,          // site.lua, or a default of it
    vm_size,       // the VM size of the job's cluster, in site.lua
    user_config,   // the user's config.toml
    job_file,      // job.json
    flag,          // an option of `job create`
    sbatch_words,  // the words after "--" of `job create`
};
constexpr auto json_words(Origin /*type*/) {
    return std::array{std::pair{std::string_view("launcher"), Origin::launcher},
                      std::pair{std::string_view("site"), Origin::site},
                      std::pair{std::string_view("vmSize"), Origin::vm_size},
                      std::pair{std::string_view("userConfig"), Origin::user_config},
                      std::pair{std::string_view("jobFile"), Origin::job_file},
                      std::pair{std::string_view("flag"), Origin::flag},
                      std::pair{std::string_view("sbatchWords"), Origin::sbatch_words}};
}

// An option of sbatch, by its long name without the dashes.
struct SlurmOption {
    std::string name;
    std::string value;  // empty: the option has none
    Origin origin = Origin::launcher;
    // An option that the user gives to sbatch, srun or salloc wins over this one. If this is set,
    // the value is the job file's, and the user's must be the same.
    bool must_agree = false;
    // The key of job.json that the value comes from, if it is not in "slurm".
    std::string_view key = {};

    bool operator==(const SlurmOption&) const = default;

    // The rest of an option is set only where the planner's list of options is made.
    static constexpr auto fields(auto field) {
        return std::tuple{field("name", &SlurmOption::name), field("value", &SlurmOption::value),
                          field("origin", &SlurmOption::origin)};
    }
};

// What the job asks of Slurm. Zero means that it does not ask for this.
struct Allocation {
    int nodes = 1;               // on which the ranks run
    int spare_nodes = 0;         // besides; each waits to take the place of one of the others
    int processes = 1;           // ranks on all nodes together
    int processes_per_node = 1;  // at most, on any node
    int cpus_per_process = 0;
    int nice = normal_nice;  // schedulingPriority: low 1000, high 0 (users cannot ask for less)
    std::chrono::minutes time_limit{0};
    // What the site, the user's defaults, the job file and the command line choose of Slurm's other
    // options. Each name is there once, with the choice that takes precedence.
    std::vector<SlurmOption> options;

    bool operator==(const Allocation&) const = default;

    [[nodiscard]] int all_nodes() const { return nodes + spare_nodes; }

    static constexpr auto fields(auto field) {
        return std::tuple{field("nodes", &Allocation::nodes).within(1),
                          field("spareNodes", &Allocation::spare_nodes).within(0).or_missing(),
                          field("processes", &Allocation::processes).within(1),
                          field("processesPerNode", &Allocation::processes_per_node).within(1),
                          field("cpusPerProcess", &Allocation::cpus_per_process).within(0),
                          field("nice", &Allocation::nice),
                          field("timeLimitMinutes", &Allocation::time_limit)
                              .within(0, std::numeric_limits<int>::max()),
                          field("options", &Allocation::options)};
    }
};

}  // namespace batchai::plan

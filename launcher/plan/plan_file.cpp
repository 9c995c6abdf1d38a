// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/plan_file.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/json.hpp"
#include "base/record.hpp"
#include "plan/sweep_file.hpp"

namespace batchai::base {

using namespace std::string_view_literals;
using plan::Allocation;
using plan::Checkpoint;
using plan::Container;
using plan::Directories;
using plan::HealthChecks;
using plan::HostBind;
using plan::Identity;
using plan::Mount;
using plan::MountScope;
using plan::NodeSetup;
using plan::Origin;
using plan::OutputDirectory;
using plan::Plan;
using plan::RemoteVolume;
using plan::Retry;
using plan::SlurmOption;
using plan::Snapshot;
using plan::Software;
using plan::Step;
using plan::StepKind;
using plan::SweepPoints;
using plan::Variable;
using plan::Webhook;

constexpr int longest = std::numeric_limits<int>::max();

// A job may wait for days and is then read by a newer release, so a key that is added to these
// tables must be one that may be missing: `.or_missing()`. A key that is taken away has to be
// translated (in_todays_keys). The plans of earlier releases in tests/unit/plan/data/earlier show
// whether both have been done.

template <>
struct WordsOf<MountScope> {
    static constexpr std::array words{std::pair{"job"sv, MountScope::job},
                                      std::pair{"cluster"sv, MountScope::cluster}};
};

template <>
struct WordsOf<Origin> {
    static constexpr std::array words{std::pair{"launcher"sv, Origin::launcher},
                                      std::pair{"site"sv, Origin::site},
                                      std::pair{"vmSize"sv, Origin::vm_size},
                                      std::pair{"userConfig"sv, Origin::user_config},
                                      std::pair{"jobFile"sv, Origin::job_file},
                                      std::pair{"flag"sv, Origin::flag},
                                      std::pair{"sbatchWords"sv, Origin::sbatch_words}};
};

template <>
struct WordsOf<StepKind> {
    static constexpr std::array words{std::pair{"preparation"sv, StepKind::preparation},
                                      std::pair{"ranks"sv, StepKind::ranks},
                                      std::pair{"master"sv, StepKind::master},
                                      std::pair{"parameterServers"sv, StepKind::parameter_servers}};
};

template <>
struct RecordOf<Identity> {
    static constexpr auto fields = std::tuple{field("subscription", &Identity::subscription),
                                              field("resourceGroup", &Identity::resource_group),
                                              field("workspace", &Identity::workspace),
                                              field("experiment", &Identity::experiment),
                                              field("job", &Identity::job),
                                              field("cluster", &Identity::cluster),
                                              field("uuid", &Identity::uuid)};
};

template <>
struct RecordOf<Variable> {
    static constexpr auto fields =
        std::tuple{field("name", &Variable::name), field("value", &Variable::value)};
};

// The rest of an option is set only where the planner's list of options is made.
template <>
struct RecordOf<SlurmOption> {
    static constexpr auto fields =
        std::tuple{field("name", &SlurmOption::name), field("value", &SlurmOption::value),
                   field("origin", &SlurmOption::origin)};
};

template <>
struct RecordOf<Allocation> {
    static constexpr auto fields =
        std::tuple{field("nodes", &Allocation::nodes).within(1),
                   field("processes", &Allocation::processes).within(1),
                   field("processesPerNode", &Allocation::processes_per_node).within(1),
                   field("cpusPerProcess", &Allocation::cpus_per_process).within(0),
                   field("nice", &Allocation::nice),
                   field("timeLimitMinutes", &Allocation::time_limit).within(0, longest),
                   field("options", &Allocation::options).or_missing()};
};

template <>
struct RecordOf<Directories> {
    static constexpr auto fields = std::tuple{field("nodeRoot", &Directories::node_root),
                                              field("jobTemp", &Directories::job_temp),
                                              field("mountRoot", &Directories::mount_root),
                                              field("jobMountRoot", &Directories::job_mount_root),
                                              field("jobDirectory", &Directories::job_directory),
                                              field("planDirectory", &Directories::plan_directory),
                                              field("sharedJobTemp", &Directories::shared_job_temp),
                                              field("stdouterr", &Directories::stdouterr),
                                              field("stdouterrHost", &Directories::stdouterr_host)};
};

template <>
struct RecordOf<RemoteVolume> {
    static constexpr auto fields =
        std::tuple{field("backend", &RemoteVolume::backend),
                   field("path", &RemoteVolume::path),
                   field("options", &RemoteVolume::options),
                   field("secretOption", &RemoteVolume::secret_option),
                   field("secretName", &RemoteVolume::secret_name),
                   field("credentialsFile", &RemoteVolume::credentials_file),
                   field("fileMode", &RemoteVolume::file_mode).within(0, 0777),
                   field("directoryMode", &RemoteVolume::directory_mode).within(0, 0777)};
};

template <>
struct RecordOf<Mount> {
    static constexpr auto fields =
        std::tuple{field("kind", &Mount::kind),
                   field("name", &Mount::name),
                   field("source", &Mount::source),
                   field("target", &Mount::target),
                   field("scope", &Mount::scope),
                   field("readOnly", &Mount::read_only),
                   field("createSource", &Mount::create_source),
                   field("sourceRoot", &Mount::source_root),
                   field("noExecute", &Mount::no_execute),
                   field("remote", &Mount::remote),
                   field("mountSeconds", &Mount::mount_seconds).within(1),
                   field("flushSeconds", &Mount::flush_seconds).within(0)};
};

template <>
struct RecordOf<OutputDirectory> {
    static constexpr auto fields = std::tuple{
        field("id", &OutputDirectory::id), field("path", &OutputDirectory::path),
        field("pathHost", &OutputDirectory::path_host), field("create", &OutputDirectory::create)};
};

template <>
struct RecordOf<HostBind> {
    static constexpr auto fields =
        std::tuple{field("source", &HostBind::source), field("target", &HostBind::target),
                   field("readOnly", &HostBind::read_only), field("optional", &HostBind::optional)};
};

template <>
struct RecordOf<Container> {
    static constexpr auto fields = std::tuple{
        field("image", &Container::image), field("digest", &Container::digest),
        field("source", &Container::source), field("root", &Container::root),
        field("rootIsDirectory", &Container::root_is_directory),
        field("insecureRegistry", &Container::insecure_registry),
        field("cacheLimit", &Container::cache_limit).within(0),
        field("environment", &Container::environment), field("entrypoint", &Container::entrypoint),
        field("workingDirectory", &Container::working_directory),
        field("shmBytes", &Container::shm_bytes).within(0),
        field("ranksAsRoot", &Container::ranks_as_root), field("binds", &Container::binds),
        field("inject", &Container::inject),
        // -1: no owner is trusted but the user and root.
        field("rootOwner", &Container::root_owner).within(-1)};
};

template <>
struct RecordOf<Step> {
    static constexpr auto fields =
        std::tuple{field("kind", &Step::kind),
                   field("command", &Step::command),
                   field("processes", &Step::processes).within(1),
                   field("processesPerNode", &Step::processes_per_node).within(1),
                   field("pmix", &Step::pmix),
                   field("stdoutName", &Step::stdout_name),
                   field("stderrName", &Step::stderr_name)};
};

template <>
struct RecordOf<NodeSetup> {
    static constexpr auto fields =
        std::tuple{field("command", &NodeSetup::command), field("key", &NodeSetup::key),
                   field("logDirectory", &NodeSetup::log_directory)};
};

template <>
struct RecordOf<Retry> {
    static constexpr auto fields =
        std::tuple{field("on", &Retry::on), field("max", &Retry::max).within(1),
                   field("excludeFailedNodes", &Retry::exclude_failed_nodes),
                   field("progressDirectory", &Retry::progress_directory),
                   field("attemptsWithoutProgress", &Retry::attempts_without_progress).within(1)};
};

template <>
struct RecordOf<Checkpoint> {
    static constexpr auto fields =
        std::tuple{field("signal", &Checkpoint::signal).within(1, 64),
                   field("secondsBefore", &Checkpoint::seconds_before).within(1)};
};

template <>
struct RecordOf<Software> {
    static constexpr auto fields =
        std::tuple{field("modules", &Software::modules),
                   field("modulePaths", &Software::module_paths),
                   field("purge", &Software::purge),
                   field("condaEnvironment", &Software::conda_environment),
                   field("condaPrefix", &Software::conda_prefix),
                   field("venv", &Software::venv),
                   field("uvProject", &Software::uv_project),
                   field("uvExtras", &Software::uv_extras),
                   field("uvGroups", &Software::uv_groups),
                   field("python", &Software::python),
                   field("seconds", &Software::seconds).within(1)};
};

template <>
struct RecordOf<Snapshot> {
    static constexpr auto fields =
        std::tuple{field("source", &Snapshot::source),
                   field("directory", &Snapshot::directory),
                   field("workingDirectory", &Snapshot::working_directory),
                   field("exclude", &Snapshot::exclude),
                   field("maxBytes", &Snapshot::max_bytes).within(0),
                   field("maxFiles", &Snapshot::max_files).within(0)};
};

template <>
struct RecordOf<Webhook> {
    static constexpr auto fields = std::tuple{
        field("secretName", &Webhook::secret_name), field("textOnly", &Webhook::text_only),
        field("onlyFailures", &Webhook::only_failures), field("overHttp", &Webhook::over_http)};
};

template <>
struct RecordOf<HealthChecks> {
    static constexpr auto fields =
        std::tuple{field("directory", &HealthChecks::directory),
                   field("timeLimit", &HealthChecks::time_limit).within(1),
                   field("totalTimeLimit", &HealthChecks::total_time_limit).within(1),
                   field("retries", &HealthChecks::retries).within(0)};
};

template <>
struct RecordOf<SweepPoints> {
    static constexpr auto fields = std::tuple{field("parameters", &SweepPoints::parameters),
                                              field("count", &SweepPoints::count).within(1),
                                              field("digest", &SweepPoints::digest)};
};

template <>
struct RecordOf<Plan> {
    static constexpr auto fields = std::tuple{field("identity", &Plan::identity),
                                              field("toolType", &Plan::tool_type),
                                              field("mpi", &Plan::mpi),
                                              field("declaration", &Plan::declaration).or_missing(),
                                              field("allocation", &Plan::allocation),
                                              field("directories", &Plan::directories),
                                              field("mounts", &Plan::mounts),
                                              field("container", &Plan::container),
                                              field("outputs", &Plan::outputs),
                                              field("environment", &Plan::environment),
                                              field("secretNames", &Plan::secret_names),
                                              field("nodeSetup", &Plan::node_setup).or_missing(),
                                              field("steps", &Plan::steps),
                                              field("retry", &Plan::retry).or_missing(),
                                              field("checkpoint", &Plan::checkpoint).or_missing(),
                                              field("software", &Plan::software).or_missing(),
                                              field("snapshot", &Plan::snapshot).or_missing(),
                                              field("webhook", &Plan::webhook).or_missing(),
                                              field("health", &Plan::health).or_missing(),
                                              field("sweep", &Plan::sweep).or_missing(),
                                              field("notices", &Plan::notices)};
};

}  // namespace batchai::base

namespace batchai::plan {

using namespace std::string_view_literals;

namespace {

constexpr std::string_view schema = "batchai-plan/v3";
// Variables can be long; everything that the launcher itself writes stays far below this limit.
constexpr std::size_t size_limit = 16UL << 20U;

// Plans once had a key for each option of Slurm that a site can set, and a list of further options.
// Now one list has all of them.
constexpr std::string_view further_options = "extraOptions";
constexpr std::array former_keys{"partition"sv, "constraint"sv, "gres"sv, "account"sv, "qos"sv};

base::Value option_of_site(std::string_view name, const std::string& value) {
    return base::to_value(
        plan::SlurmOption{.name = std::string(name), .value = value, .origin = plan::Origin::site});
}

// Returns the allocation of such a plan with today's keys. A key that has another type than it had
// stays what it is and is refused as unknown.
base::Value allocation_in_todays_keys(const base::Value::Object& allocation) {
    base::Value out;
    base::Value::Array options;
    for (const auto& [key, value] : allocation) {
        const bool former =
            std::find(former_keys.begin(), former_keys.end(), key) != former_keys.end();
        if (key == "exclusive" && value.boolean() != nullptr) {
            if (*value.boolean()) options.push_back(option_of_site(key, {}));
        } else if (former && value.string() != nullptr) {
            if (!value.string()->empty()) options.push_back(option_of_site(key, *value.string()));
        } else if (key == further_options && value.array() != nullptr) {
            for (const base::Value& option : *value.array()) {
                base::Value with_origin = option;
                with_origin.set("origin", base::word_of(plan::Origin::site));
                options.push_back(std::move(with_origin));
            }
        } else {
            out.set(key, value);
        }
    }
    out.set("options", std::move(options));
    return out;
}

// Returns the text of a plan with today's keys. Text that is no plan is returned as it is.
std::string in_todays_keys(std::string_view text) {
    std::string same(text);
    if (text.find(further_options) == std::string_view::npos) return same;
    auto plan = base::parse_json(text, {});
    if (!plan) return same;
    const base::Value allocation = (*plan)["allocation"];
    if (allocation[further_options].is_null() || !allocation["options"].is_null()) return same;
    plan->set("allocation", allocation_in_todays_keys(*allocation.object()));
    return base::format_json(*plan);
}

}  // namespace

std::string to_json(const Plan& plan) {
    return base::to_record(plan, schema);
}

base::Result<Plan> plan_from_json(std::string_view text) {
    return base::from_record<Plan>(in_todays_keys(text), schema, {}, base::UnknownKeys::refused)
        .map_error([](const base::Error& fault) {
            return base::Error{.what = "this is not a plan of this release: " + fault.what,
                               .where = {},
                               .hint = "create the job again"};
        });
}

base::Result<Plan> read_plan(const std::string& path, const std::string& digest,
                             std::optional<int> array_task) {
    auto text = base::read_file(path, size_limit);
    if (!text) {
        text.error().hint =
            "the job's directory must be on a file system that every node sees; BATCHAI_HOME moves "
            "it there";
        return tl::unexpected<base::Error>(std::move(text).error());
    }
    if (base::sha256_hex(*text) != digest)
        return base::fail("has changed since the job was submitted", path, "submit the job again");
    auto plan = plan_from_json(*text);
    if (!plan) {
        plan.error().where = path;
        return plan;
    }
    // The directory has secrets, logs and unsaved data.
    TRY(base::check_own_directory(plan->directories.plan_directory));
    if (plan->directories.job_directory != plan->directories.plan_directory)
        return base::fail("names a job directory other than its own", path, "submit the job again");
    if (array_task) return plan_of_task(*plan, *array_task);
    if (plan->sweep)
        return base::fail("each point of a sweep runs as a task of an array job, and this is none",
                          path, "submit the job file with `batchai job create` or sbatch");
    return plan;
}

}  // namespace batchai::plan

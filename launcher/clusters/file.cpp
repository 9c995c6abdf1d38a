// SPDX-License-Identifier: GPL-2.0-or-later
#include "clusters/file.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "cli/output/query.hpp"

namespace batchai::clusters {

namespace {

bool is_variable_name(std::string_view name) {
    constexpr std::string_view letters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return !name.empty() && name.find_first_not_of(letters) == std::string_view::npos &&
           (name.front() < '0' || name.front() > '9');
}

using Keys = std::span<const std::string_view>;

// Reads one file and collects all of its faults, so that they are reported together.
class Reader {
  public:
    ClusterFile read(const base::Value& root) {
        // The last ones are those of every resource of Azure, and say nothing about the nodes.
        constexpr std::array<std::string_view, 7> root_keys{
            "$schema", "properties", "location", "tags", "id", "name", "type"};
        constexpr std::array<std::string_view, 7> keys{
            "vmSize",    "vmPriority", "scaleSettings",      "virtualMachineConfiguration",
            "nodeSetup", "subnet",     "userAccountSettings"};
        ClusterFile file;
        if (!check_object(root, "the file", root_keys)) return file;
        for (const std::string_view key : std::span(root_keys).subspan(2))
            if (!root[key].is_null()) file.without_effect.emplace_back(key);
        const auto& properties = root["properties"];
        if (!check_object(properties, "properties", keys)) return file;
        file.vm_size = text(properties, "vmSize");
        read_priority(properties, file);
        read_scale(properties["scaleSettings"], file);
        const auto& account = properties["userAccountSettings"];
        if (!account.is_null()) {
            constexpr std::array<std::string_view, 3> account_keys{
                "adminUserName", "adminUserSshPublicKey", "adminUserPassword"};
            if (check_object(account, "userAccountSettings", account_keys)) {
                file.admin_user_name = text(account, "adminUserName");
            }
        }
        if (!properties["virtualMachineConfiguration"].is_null()) {
            file.without_effect.emplace_back("virtualMachineConfiguration");
        }
        read_node_setup(properties["nodeSetup"], file);
        if (!properties["subnet"].is_null()) fault("subnet is not supported yet");
        return file;
    }

    [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }

  private:
    void fault(std::string message) { faults_.push_back(std::move(message)); }

    bool check_object(const base::Value& value, const std::string& name, Keys keys) {
        const auto* object = value.object();
        if (object == nullptr) {
            fault(fmt::format("{} must be an object", name));
            return false;
        }
        for (const auto& [key, member] : *object) {
            if (key.starts_with('$') || std::find(keys.begin(), keys.end(), key) != keys.end()) {
                continue;
            }
            const auto guess = base::nearest(key, keys);
            fault(fmt::format("unknown key \"{}\" in {}{}", key, name,
                              guess ? fmt::format("; did you mean \"{}\"?", *guess) : ""));
        }
        return true;
    }

    std::optional<std::string> text(const base::Value& object, std::string_view key) {
        const auto& value = object[key];
        if (value.is_null()) return {};
        if (const auto* string = value.string(); string != nullptr && !string->empty()) {
            return *string;
        }
        fault(fmt::format("{} must be a non-empty string", key));
        return {};
    }

    int count(const base::Value& object, std::string_view key, bool required) {
        const auto& value = object[key];
        if (value.is_null() && !required) return 0;
        const auto* number = value.integer();
        if (number != nullptr && *number >= 0 && *number <= std::numeric_limits<int>::max()) {
            return static_cast<int>(*number);
        }
        fault(fmt::format("{} must be a number of nodes, 0 or more", key));
        return 0;
    }

    void read_priority(const base::Value& properties, ClusterFile& file) {
        const auto name = text(properties, "vmPriority");
        if (!name) return;
        file.vm_priority = base::from_word<store::VmPriority>(base::lower(*name));
        if (!file.vm_priority) {
            fault(fmt::format("vmPriority must be dedicated or lowpriority, not \"{}\"", *name));
        }
    }

    void read_node_setup(const base::Value& setup, ClusterFile& file) {
        constexpr std::array<std::string_view, 3> keys{"mountVolumes", "setupTask",
                                                       "performanceCountersSettings"};
        if (setup.is_null() || !check_object(setup, "nodeSetup", keys)) return;
        if (!setup["setupTask"].is_null()) read_setup_task(setup["setupTask"], file);
        if (!setup["performanceCountersSettings"].is_null())
            file.without_effect.emplace_back("nodeSetup.performanceCountersSettings");
        file.mount_volumes = setup["mountVolumes"];
    }

    void read_setup_task(const base::Value& task, ClusterFile& file) {
        constexpr std::array<std::string_view, 6> keys{
            "commandLine", "stdOutErrPathPrefix", "environmentVariables",
            "secrets",     "stdOutErrPathSuffix", "runElevated"};
        if (!check_object(task, "nodeSetup.setupTask", keys)) return;
        const auto command = text(task, "commandLine");
        const auto prefix = text(task, "stdOutErrPathPrefix");
        if (task["commandLine"].is_null())
            fault("nodeSetup.setupTask needs \"commandLine\", what each node is to run once");
        if (task["stdOutErrPathPrefix"].is_null())
            fault("nodeSetup.setupTask needs \"stdOutErrPathPrefix\", the directory of its logs");
        const auto* secrets = task["secrets"].array();
        if (!task["secrets"].is_null() && (secrets == nullptr || !secrets->empty()))
            fault(
                "nodeSetup.setupTask.secrets is not supported yet: a cluster's record holds no "
                "secrets; the setup task has the secrets of the job that runs it");
        if (!task["runElevated"].is_null())
            file.without_effect.emplace_back("nodeSetup.setupTask.runElevated");
        auto variables = setup_variables(task["environmentVariables"]);
        if (command && prefix)
            file.setup_task = setup_task(*command, *prefix, std::move(variables));
    }

    base::Value::Array setup_variables(const base::Value& list) {
        base::Value::Array variables;
        if (list.is_null()) return variables;
        const auto* items = list.array();
        if (items == nullptr) {
            fault("nodeSetup.setupTask.environmentVariables must be a list");
            return variables;
        }
        constexpr std::array<std::string_view, 2> keys{"name", "value"};
        for (const base::Value& item : *items) {
            if (!check_object(item, "nodeSetup.setupTask.environmentVariables", keys)) continue;
            const auto* name = item["name"].string();
            const auto* value = item["value"].string();
            if (name == nullptr || value == nullptr || !is_variable_name(*name)) {
                fault(
                    "each of nodeSetup.setupTask.environmentVariables needs a \"name\" of letters, "
                    "digits and \"_\", and a \"value\"");
                continue;
            }
            variables.push_back(base::Value::Object{{"name", *name}, {"value", *value}});
        }
        return variables;
    }

    void read_scale(const base::Value& settings, ClusterFile& file) {
        constexpr std::array<std::string_view, 2> keys{"manual", "autoScale"};
        if (settings.is_null() || !check_object(settings, "scaleSettings", keys)) return;
        const auto& manual = settings["manual"];
        const auto& automatic = settings["autoScale"];
        if (manual.is_null() == automatic.is_null()) {
            fault("scaleSettings must hold either manual or autoScale");
            return;
        }
        file.scale = manual.is_null()
                         ? store::ScaleSettings{.manual = {}, .auto_scale = auto_scale(automatic)}
                         : store::ScaleSettings{.manual = manual_scale(manual), .auto_scale = {}};
    }

    store::ManualScale manual_scale(const base::Value& manual) {
        constexpr std::array<std::string_view, 2> keys{"targetNodeCount", "nodeDeallocationOption"};
        store::ManualScale scale;
        if (!check_object(manual, "manual", keys)) return scale;
        scale.target_node_count = count(manual, "targetNodeCount", true);
        if (const auto name = text(manual, "nodeDeallocationOption")) {
            const auto option = base::from_word<store::NodeDeallocationOption>(base::lower(*name));
            if (option) {
                scale.node_deallocation_option = *option;
            } else {
                fault("nodeDeallocationOption must be requeue, terminate or waitforjobcompletion");
            }
        }
        return scale;
    }

    store::AutoScale auto_scale(const base::Value& automatic) {
        constexpr std::array<std::string_view, 3> keys{"minimumNodeCount", "maximumNodeCount",
                                                       "initialNodeCount"};
        store::AutoScale scale;
        if (!check_object(automatic, "autoScale", keys)) return scale;
        scale.minimum_node_count = count(automatic, "minimumNodeCount", true);
        scale.maximum_node_count = count(automatic, "maximumNodeCount", true);
        scale.initial_node_count = count(automatic, "initialNodeCount", false);
        if (scale.minimum_node_count > scale.maximum_node_count) {
            fault("Maximum nodes count must be greater or equal to minimum nodes count");
        }
        return scale;
    }

    std::vector<std::string> faults_;
};

}  // namespace

base::Result<ClusterFile> parse_cluster_file(std::string_view text, const std::string& file_name) {
    auto root = base::parse_json(text, file_name);
    if (!root) {
        root.error().exit_code = base::ExitCode::bad_job_file;
        return tl::unexpected(root.error());
    }
    Reader reader;
    auto file = reader.read(*root);
    if (!reader.faults().empty()) {
        return base::fail(fmt::format("{}", fmt::join(reader.faults(), "\n" + file_name + ": ")),
                          file_name, "", base::ExitCode::bad_job_file);
    }
    return file;
}

base::Value setup_task(const std::string& command_line, const std::string& prefix,
                       base::Value::Array variables) {
    return base::Value::Object{
        {"commandLine", command_line},
        {"environmentVariables",
         variables.empty() ? base::Value() : base::Value(std::move(variables))},
        {"secrets", nullptr},
        {"stdOutErrPathPrefix", prefix}};
}

namespace {

store::ScaleSettings manual_scale(int target) {
    return {.manual = store::ManualScale{.target_node_count = target}, .auto_scale = {}};
}

}  // namespace

base::Result<std::optional<store::ScaleSettings>> scale_from_flags(const ScaleFlags& flags) {
    const auto& [target, minimum, maximum] = flags;
    const auto usage = base::ExitCode::usage;
    for (const auto& number : {target, minimum, maximum}) {
        if (number && *number < 0)
            return base::fail("A node count cannot be negative", "", "", usage);
    }
    if (minimum.has_value() != maximum.has_value()) {
        return base::fail(
            "You need to either provide both min and max node counts or not provide any of them",
            "", "", usage);
    }
    if (minimum && *minimum > *maximum) {
        return base::fail("Maximum nodes count must be greater or equal to minimum nodes count", "",
                          "", usage);
    }
    if (!minimum) {
        if (!target) return std::nullopt;
        return manual_scale(*target);
    }
    if (*minimum == *maximum && (!target || *target == *minimum)) {
        return manual_scale(*minimum);
    }
    return store::ScaleSettings{
        .manual = {},
        .auto_scale = store::AutoScale{.minimum_node_count = *minimum,
                                       .maximum_node_count = *maximum,
                                       .initial_node_count = target.value_or(0)}};
}

}  // namespace batchai::clusters

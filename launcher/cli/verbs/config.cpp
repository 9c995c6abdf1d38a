// SPDX-License-Identifier: GPL-2.0-or-later
#include "user/config.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output/output.hpp"
#include "cli/tree/builder.hpp"
#include "plan/make.hpp"
#include "site/site.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct ConfigOptions {
    bool origin = false;
    std::string key;
    std::vector<std::string> settings;  // "slurm.partition=gpu"
};

struct ConfigEntry {
    std::string key;
    Value value;
    std::string origin;
};

Value setting_value(const job::Value& value) {
    return std::visit([](const auto& held) { return Value(held); }, value);
}

// Returns where the file has a key, such as "/home/ada/.config/batchai/config.toml:3".
std::string place_of(const user::UserConfig& config, const std::string& key) {
    const auto path = user::user_config_path();
    const auto line = config.lines.find(key);
    return fmt::format("{}:{}", path ? path->string() : "config.toml",
                       line == config.lines.end() ? 0 : line->second);
}

void add_parents(const user::UserConfig& config, std::vector<ConfigEntry>& entries) {
    const std::array<std::pair<const char*, user::ParentName>, 3> parents{
        {{"defaults.group", user::group_name({})},
         {"defaults.workspace", user::workspace_name({})},
         {"defaults.experiment", user::experiment_name({})}}};
    for (const auto& [key, name] : parents) {
        const bool of_file = name.origin == "config.toml";
        entries.push_back({key, name.value, of_file ? place_of(config, key) : name.origin});
    }
}

// The site's setting of an option counts only where the file has none.
base::Result<void> add_slurm(const user::UserConfig& config, const site::Site& site,
                             std::vector<ConfigEntry>& entries) {
    const auto of_site = plan::site_options(site);
    std::vector<std::string> given;
    if (!site.source.empty()) given = TRY(site::keys_given_by(site.source));
    for (const std::string& key : user::user_config_keys()) {
        constexpr std::string_view table = "slurm.";
        if (!key.starts_with(table)) continue;
        if (const auto value = user::setting(config, key)) {
            entries.push_back({key, setting_value(*value), place_of(config, key)});
            continue;
        }
        const auto option = std::find_if(of_site.begin(), of_site.end(), [&](const auto& other) {
            return other.name == std::string_view(key).substr(table.size());
        });
        if (option == of_site.end()) continue;
        // Of these options, only this one is set where the site says nothing.
        const bool of_batchai = option->name == "exclusive" &&
                                std::find(given.begin(), given.end(), "exclusive") == given.end();
        entries.push_back({key, option->value.empty() ? Value(true) : Value(option->value),
                           of_batchai ? "batchai" : site.source});
    }
    return {};
}

base::Result<std::vector<ConfigEntry>> all_entries() {
    const user::UserConfig config = TRY(user::user_config());
    const site::Site site = TRY(site::load_default());
    std::vector<ConfigEntry> entries;
    add_parents(config, entries);
    TRY(add_slurm(config, site, entries));
    return entries;
}

Answer config_list(const ConfigOptions& options) {
    Value::Array out;
    for (const ConfigEntry& entry : TRY(all_entries())) {
        Value::Object object{{"key", entry.key}, {"value", entry.value}};
        if (options.origin) object.emplace_back("origin", entry.origin);
        out.emplace_back(std::move(object));
    }
    return Outcome{Value(std::move(out)), {}};
}

Answer config_get(const ConfigOptions& options) {
    const auto known = user::user_config_keys();
    const bool is_key = std::find(known.begin(), known.end(), options.key) != known.end();
    for (const ConfigEntry& entry : TRY(all_entries())) {
        if (entry.key == options.key) return Outcome{entry.value, {}};
    }
    return base::fail(is_key ? "has no value" : "is not a key", options.key,
                      is_key ? "" : "`batchai config get --help` lists the keys",
                      is_key ? base::ExitCode::not_found : base::ExitCode::usage);
}

Answer config_set(const ConfigOptions& options) {
    TRY(user::change_user_config(options.settings));
    return Outcome{};
}

Answer config_path(const ConfigOptions& /*options*/) {
    fmt::print("{}\n", TRY(user::user_config_path()).string());
    return Outcome{};
}

std::string key_description(const std::string& begin) {
    return fmt::format("{}: {}", begin, fmt::join(user::user_config_keys(), ", "));
}

}  // namespace

const Verbs config_verbs("", 70, [](CommandTree& tree, Parser app) {
    const Parser group = add_group(app, "config", "Show and change your own defaults");
    {
        auto [leaf, options] = add_verb(tree, group, "list", "List the defaults that are in effect",
                                        "batchai config list --origin --output table", config_list);
        leaf.add_flag("--origin", options->origin,
                      "Say where each value comes from: a file with its line, or a variable");
    }
    {
        auto [leaf, options] = add_verb(tree, group, "get", "Show one default",
                                        "batchai config get slurm.partition", config_get);
        leaf.add_option("key", options->key, key_description("One of")).required();
    }
    {
        auto [leaf, options] = add_verb(
            tree, group, "set", "Change defaults in your config.toml; its comments and order stay",
            "batchai config set slurm.partition=gpu slurm.account=physics", config_set,
            Printing::by_itself);
        leaf.add_option("setting", options->settings, key_description("KEY=VALUE with one of"))
            .required();
    }
    add_verb(tree, group, "path", "Show where your config.toml is, or would be",
             "$EDITOR \"$(batchai config path)\"", config_path, Printing::by_itself);
});

}  // namespace batchai::cli

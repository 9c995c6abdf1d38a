// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "site/site.hpp"
#include "user/config.hpp"
#include "user/parents.hpp"

// The commands of the Azure CLI that scripts begin with: login, account, configure, provider. There
// is nothing to log in to: Slurm knows the user.
namespace batchai::cli {
namespace {

constexpr const char* azure_commands = "Commands For Scripts Of The Azure CLI";

struct LoginOptions {
    std::optional<std::string> user_name;
    std::optional<std::string> password;
    std::optional<std::string> tenant;
    bool service_principal = false;
    bool device_code = false;
    bool identity = false;
};

struct SubscriptionOptions {
    std::optional<std::string> subscription;
    bool all = false;
};

struct ConfigureOptions {
    std::vector<std::string> defaults;  // "group=team"
    bool list_defaults = false;
};

struct ProviderOptions {
    std::string name;
    bool wait = false;
};

Value subscription_value(const site::Site& site) {
    const auto* user = getpwuid(getuid());
    return Value::Object{
        {"environmentName", "Slurm"},
        {"id", site.subscription},
        {"isDefault", true},
        {"name", site.location},
        {"state", "Enabled"},
        {"tenantId", site.subscription},
        {"user", Value::Object{{"name", user == nullptr ? Value() : Value(user->pw_name)},
                               {"type", "user"}}}};
}

Table subscription_table(const Value& value) {
    Table table{{"Name", "CloudName", "SubscriptionId", "State", "IsDefault"}, {}};
    const auto add = [&](const Value& item) {
        const auto text = [&](const char* key) {
            const auto* found = item[key].string();
            return found == nullptr ? std::string() : *found;
        };
        table.rows.push_back(
            {text("name"), text("environmentName"), text("id"), text("state"), "True"});
    };
    if (const auto* items = value.array()) {
        for (const auto& item : *items)
            add(item);
    } else {
        add(value);
    }
    return table;
}

Answer login(const LoginOptions& /*options*/) {
    const auto site = TRY(site::load_default());
    say("there is nothing to log in to: Slurm knows you as the user that you are here");
    return Outcome{Value(Value::Array{subscription_value(site)}), subscription_table};
}

Answer logout(const LoginOptions& /*options*/) {
    say("there is nothing to log out of");
    return Outcome{};
}

Answer subscription_show(const SubscriptionOptions& /*options*/) {
    const auto site = TRY(site::load_default());
    return Outcome{subscription_value(site), subscription_table};
}

Answer subscription_list(const SubscriptionOptions& /*options*/) {
    const auto site = TRY(site::load_default());
    return Outcome{Value(Value::Array{subscription_value(site)}), subscription_table};
}

Answer subscription_set(const SubscriptionOptions& /*options*/) {
    say("the site is one subscription, which stays the current one");
    return Outcome{};
}

Answer configure(const ConfigureOptions& options) {
    std::vector<std::string> settings;
    settings.reserve(options.defaults.size());
    for (const auto& word : options.defaults) {
        if (word.starts_with("location="))
            say("a site has one location, so there is no default for it");
        else
            settings.push_back("defaults." + word);
    }
    if (!settings.empty()) TRY(user::change_user_config(settings));
    if (!options.defaults.empty() && !options.list_defaults) return Outcome{};
    if (!options.list_defaults) {
        say("--defaults group=NAME sets a default; `batchai config --help` has more");
        return Outcome{};
    }
    Value::Array values;
    for (const auto& [name, parent] : {std::pair{"group", user::group_name({})},
                                       std::pair{"workspace", user::workspace_name({})},
                                       std::pair{"experiment", user::experiment_name({})}}) {
        if (parent.fallback) continue;
        values.emplace_back(
            Value::Object{{"name", name}, {"source", parent.origin}, {"value", parent.value}});
    }
    return Outcome{Value(std::move(values)), {}};
}

Answer provider_register(const ProviderOptions& options) {
    say(fmt::format("{} needs no registration here", options.name));
    return Outcome{};
}

void add_login(CommandTree& tree, Parser app) {
    auto [leaf, options] = add_verb(
        tree, app, "login", "Do nothing, because Slurm knows who you are", "batchai login", login);
    leaf.group(azure_commands);
    const std::string note = " (accepted without effect)";
    add_optional(leaf, "--username,-u", options->user_name, "Name" + note).type_name("NAME");
    add_optional(leaf, "--password,-p", options->password, "Password" + note).type_name("TEXT");
    add_optional(leaf, "--tenant,-t", options->tenant, "Tenant" + note).type_name("ID");
    leaf.add_flag("--service-principal", options->service_principal, "Kind of user" + note);
    leaf.add_flag("--use-device-code", options->device_code, "Way to log in" + note);
    leaf.add_flag("--identity,-i", options->identity, "Way to log in" + note);
    auto [out, nothing] =
        add_verb(tree, app, "logout", "Do nothing, as login does", "batchai logout", logout);
    out.group(azure_commands);
    add_optional(out, "--username", nothing->user_name, "Name" + note).type_name("NAME");
}

void add_account(CommandTree& tree, Parser app) {
    const Parser group = add_group(app, "account", "The site as a subscription");
    group.group(azure_commands);
    constexpr const char* names = "--name,-n,-s";
    constexpr const char* description = "As --subscription";
    {
        auto [leaf, options] = add_verb(tree, group, "show", "Show the site as a subscription",
                                        "batchai account show", subscription_show);
        add_optional(leaf, names, options->subscription, description).type_name("ID");
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the site as the only subscription",
                     "batchai account list --output table", subscription_list);
        leaf.add_flag("--all", options->all, "Accepted: there is only one");
    }
    auto [leaf, options] = add_verb(tree, group, "set", "Accept any --subscription, without effect",
                                    "batchai account set --subscription mine", subscription_set);
    add_optional(leaf, names, options->subscription, description).type_name("ID");
}

void add_configure(CommandTree& tree, Parser app) {
    auto [leaf, options] =
        add_verb(tree, app, "configure", "Set your defaults, as the Azure CLI does",
                 "batchai configure --defaults group=team workspace=dev", configure);
    leaf.group(azure_commands);
    leaf.add_option("--defaults,-d", options->defaults,
                    "NAME=VALUE with the name group, workspace or experiment, for config.toml")
        .type_name("SETTING");
    leaf.add_flag("--list-defaults,-l", options->list_defaults,
                  "List the defaults that are set, with where they come from");
}

void add_provider(CommandTree& tree, Parser app) {
    const Parser group =
        add_group(app, "provider", "Services of Azure, which need no registration");
    group.group(azure_commands);
    auto [leaf, options] =
        add_verb(tree, group, "register", "Do nothing: all is there",
                 "batchai provider register --namespace Microsoft.BatchAI", provider_register);
    leaf.add_option("--namespace,-n", options->name, "Name of the service")
        .type_name("NAME")
        .required();
    leaf.add_flag("--wait", options->wait, "Accepted: there is nothing to wait for");
}

}  // namespace

const Verbs azure_account_verbs("", 150, [](CommandTree& tree, Parser app) {
    add_login(tree, app);
    add_account(tree, app);
    add_configure(tree, app);
    add_provider(tree, app);
});

}  // namespace batchai::cli

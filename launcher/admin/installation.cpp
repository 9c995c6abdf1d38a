// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/installation.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "admin/plugstack.hpp"
#include "base/process.hpp"
#include "node/slurm_conf.hpp"
#include "site/site.hpp"
#include "store/store.hpp"

namespace batchai::admin {

namespace {

using base::Value;

Value text_or_null(const std::string& text) {
    return text.empty() ? Value() : Value(text);
}

template <typename Map>
Value names_in(const Map& map) {
    Value::Array names;
    for (const auto& entry : map)
        names.emplace_back(entry.first);
    return names;
}

template <typename Names>
Value list_of(const Names& names) {
    return Value::Array(names.begin(), names.end());
}

// The keys of site.lua with the values that apply. Of a table, only the names.
std::vector<std::pair<std::string_view, Value>> values_of(const site::Site& site) {
    std::vector<std::string> binds;
    for (const site::ContainerBind& bind : site.container_binds)
        binds.push_back(bind.source);
    return {{"subscription", site.subscription},
            {"location", site.location},
            {"node_directory", site.node_directory},
            {"python_interpreter", site.python_interpreter},
            {"default_partition", text_or_null(site.default_partition)},
            {"account", text_or_null(site.account)},
            {"qos", text_or_null(site.qos)},
            {"exclusive", site.exclusive},
            {"mpi", site.mpi},
            {"any_vm_size", site.any_vm_size},
            {"vm_sizes", names_in(site.vm_sizes)},
            {"storage_accounts", names_in(site.storage_accounts)},
            {"other_accounts_in_azure", site.other_accounts_in_azure},
            {"mount_timeout", site.mount_timeout},
            {"flush_timeout", site.flush_timeout},
            {"file_servers", names_in(site.file_servers)},
            {"named_mounts", names_in(site.named_mounts)},
            {"environment", names_in(site.environment)},
            {"image_directory", text_or_null(site.image_directory)},
            {"shared_image_directory", text_or_null(site.shared_image_directory)},
            {"shared_image_owner", site.shared_image_owner},
            {"image_cache_limit", site.image_cache_limit},
            {"insecure_registries", list_of(site.insecure_registries)},
            {"image_entrypoint", site.image_entrypoint},
            {"container_binds", list_of(binds)},
            {"inject_mpi_bridge", site.inject_mpi_bridge},
            {"webhooks_over_http", site.webhooks_over_http},
            {"health", text_or_null(site.health.directory)},
            {"note_failed_nodes", site.note_failed_nodes}};
}

base::Result<void> add_site(std::vector<InstalledSetting>& settings) {
    const site::Site site = TRY(site::load_default());
    std::vector<std::string> given;
    if (!site.source.empty()) given = TRY(site::keys_given_by(site.source));
    const bool named = base::variable("BATCHAI_SITE").has_value();
    settings.push_back({"site.lua", text_or_null(site.source),
                        named                 ? "BATCHAI_SITE"
                        : site.source.empty() ? "default"
                                              : "built in"});
    for (auto& [key, value] : values_of(site)) {
        const bool of_file = std::find(given.begin(), given.end(), key) != given.end();
        settings.push_back({fmt::format("site.{}", key), std::move(value),
                            of_file ? site.source : std::string("default")});
    }
    return {};
}

void add_plugin(std::vector<InstalledSetting>& settings) {
    const auto named = base::variable("SLURM_CONF");
    const auto conf = node::read_slurm_conf(named.value_or(""));
    if (conf.path.empty()) return;
    settings.push_back({"slurm.conf", conf.path, named == conf.path ? "SLURM_CONF" : "built in"});
    const std::string path = plugstack_path(conf);
    const bool configured = node::slurm_conf_value(conf.text, "PlugStackConfig").has_value();
    settings.push_back({"plugstack.conf", path, configured ? conf.path : "default"});
    const auto plugstack = read_plugstack(path);
    if (!plugstack) return;
    for (const PlugstackLine& line : lines_of_batchai(*plugstack)) {
        settings.push_back({"plugin", line.plugin, line.place});
        for (const std::string& word : line.arguments) {
            const std::size_t equals = std::min(word.find('='), word.size());
            settings.push_back({fmt::format("plugin.{}", word.substr(0, equals)),
                                word.substr(std::min(equals + 1, word.size())), line.place});
        }
    }
}

}  // namespace

base::Result<std::vector<InstalledSetting>> installed_settings() {
    std::vector<InstalledSetting> settings;
    settings.push_back({"programs", BATCHAI_LIBEXECDIR, "built in"});
    if (const auto store = store::Store::open_default())
        settings.push_back({"records", store->home().string(),
                            base::variable("BATCHAI_HOME") ? "BATCHAI_HOME" : "default"});
    add_plugin(settings);
    TRY(add_site(settings));
    return settings;
}

}  // namespace batchai::admin

// SPDX-License-Identifier: GPL-2.0-or-later
#include "site/site.hpp"

#include <algorithm>
#include <array>
#include <system_error>

#include <fmt/format.h>
#include <lua.hpp>
#include <pwd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "site/sandbox.hpp"
#include "site/table_reader.hpp"

namespace batchai::site {

namespace {

bool is_at_or_below(std::string_view path, std::string_view place) {
    return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/');
}

// Returns the path without doubled or trailing slashes, or an error if it cannot be used.
base::Result<std::string> clean_path(std::string_view text) {
    if (!text.starts_with('/')) return base::fail(fmt::format("\"{}\" is not absolute", text));
    std::string path;
    for (const std::string_view part : base::split(text, '/')) {
        if (part.empty()) continue;
        if (part == "." || part == "..")
            return base::fail(fmt::format("\"{}\" has a . or .. component", text));
        path += fmt::format("/{}", part);
    }
    for (auto at = path.find('%'); at != std::string::npos; at = path.find('%', at + 2)) {
        if (path.compare(at, 2, "%u") != 0)
            return base::fail(fmt::format("\"{}\" has a % that is not %u", text), {},
                              "%u stands for the user's name");
    }
    return path.empty() ? "/" : path;
}

// Returns whether the target belongs to the container's own file systems.
bool is_taken(std::string_view target) {
    constexpr std::array<std::string_view, 2> whole{"/", "/dev"};
    return std::find(whole.begin(), whole.end(), target) != whole.end() ||
           is_at_or_below(target, "/proc") || is_at_or_below(target, "/sys");
}

}  // namespace

base::Result<ContainerBind> parse_container_bind(std::string_view text) {
    auto parts = base::split(text, ':');
    auto source = TRY(clean_path(parts.front()));
    ContainerBind bind{source, source, false, false};
    auto part = parts.begin() + 1;
    if (part != parts.end() && part->starts_with('/')) {
        auto target = TRY(clean_path(*part++));
        bind.target = std::move(target);
    }
    for (; part != parts.end(); ++part) {
        if (*part == "ro")
            bind.read_only = true;
        else if (*part == "optional")
            bind.optional = true;
        else
            return base::fail(fmt::format("\"{}\" is neither a path nor an option", *part), {},
                              "write SOURCE, SOURCE:TARGET, and after it :ro or :optional");
    }
    if (is_taken(bind.target))
        return base::fail(
            fmt::format("{} cannot be replaced in a container; give another target", bind.target));
    return bind;
}

void read_container_binds(TableReader& table, std::vector<ContainerBind>& binds) {
    constexpr const char* key = "container_binds";
    std::vector<std::string> texts;
    table.words(key, texts);
    for (const std::string& text : texts) {
        auto bind = parse_container_bind(text);
        if (!bind) {
            table.refuse(key, fmt::format("entry \"{}\": {}", text, bind.error().what),
                         bind.error().hint);
            return;
        }
        const bool twice = std::any_of(binds.begin(), binds.end(), [&](const ContainerBind& other) {
            return other.target == bind->target;
        });
        if (twice) {
            table.refuse(key, fmt::format("entry \"{}\": {} is the target of another entry", text,
                                          bind->target));
            return;
        }
        binds.push_back(std::move(*bind));
    }
}

namespace {

// The options of all backends that rclone documents as passwords or as sensitive.
constexpr std::array<std::string_view, 13> secret_names = {
    "pass",          "password",      "key",          "secret_access_key", "session_token",
    "token",         "client_secret", "bearer_token", "sas_url",           "key_pem",
    "key_file_pass", "access_token",  "api_key"};

bool is_option_name(std::string_view name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || base::is_digit(c) || c == '_';
    });
}

}  // namespace

std::string_view usual_secret_option(std::string_view backend) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 7> known = {{
        {"azureblob", "key"},
        {"ftp", "pass"},
        {"s3", "secret_access_key"},
        {"sftp", "pass"},
        {"smb", "pass"},
        {"swift", "key"},
        {"webdav", "pass"},
    }};
    for (const auto& [name, option] : known) {
        if (name == backend) return option;
    }
    return {};
}

void read_remote_storage(TableReader& table, std::string_view key,
                         std::optional<RemoteStorage>& storage) {
    std::vector<std::pair<std::string, std::string>> entries;
    table.pairs(key, entries);
    if (entries.empty()) return;
    RemoteStorage read;
    bool secret_given = false;
    for (auto& [name, value] : entries) {
        if (name == "type") {
            read.backend = value;
        } else if (name == "path") {
            read.path = value;
        } else if (name == "secret") {
            secret_given = true;
            read.secret_option = value;
        } else if (std::find(secret_names.begin(), secret_names.end(), name) !=
                   secret_names.end()) {
            return table.refuse(
                key, fmt::format("{} is a secret, but everybody can read this file", name),
                "put it in the account's credentials_file");
        } else if (!is_option_name(name)) {
            return table.refuse(key, fmt::format("\"{}\" cannot be an option of rclone", name),
                                "they have lower-case letters, digits and \"_\"");
        } else {
            read.options.emplace_back(name, std::move(value));
        }
    }
    if (!is_option_name(read.backend))
        return table.refuse(key, "has no type", "write type = \"smb\" or another of rclone's");
    if (!secret_given) read.secret_option = usual_secret_option(read.backend);
    if (!read.secret_option.empty() && !is_option_name(read.secret_option))
        return table.refuse(key, "secret must be the name of an option, or empty");
    storage = std::move(read);
}

}  // namespace batchai::site

namespace batchai::site {

namespace {

// Parses a word of sbatch's argument vector as an option. Short options, and values that are
// separate words, are refused, because srun and salloc get the options by their long names.
std::optional<ExtraOption> extra_option(std::string_view word) {
    if (!word.starts_with("--")) return std::nullopt;
    word.remove_prefix(2);
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(0, equals);
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || base::is_digit(c) || c == '-';
    });
    if (!is_name || equals + 1 == word.size()) return std::nullopt;
    return ExtraOption{
        .name = std::string(name),
        .value = std::string(equals == word.size() ? std::string_view() : word.substr(equals + 1))};
}

void read_extra_options(TableReader& entry, std::vector<ExtraOption>& options) {
    constexpr const char* key = "extra_options";
    constexpr std::array<std::string_view, 3> sizes{"nodes", "ntasks", "ntasks-per-node"};
    std::vector<std::string> words;
    entry.words(key, words);
    for (const std::string& word : words) {
        auto option = extra_option(word);
        if (!option)
            return entry.refuse(key, fmt::format("\"{}\" is not a long option", word),
                                "write \"--name\" or \"--name=value\"");
        if (std::find(sizes.begin(), sizes.end(), option->name) != sizes.end())
            return entry.refuse(key, fmt::format("--{} is set by the job file", option->name));
        options.push_back(std::move(*option));
    }
}

void read_vm_size(TableReader& entry, VmSize& size) {
    entry.text("partition", size.partition);
    entry.text("constraint", size.constraint);
    entry.text("gres", size.gres);
    entry.count("cpus", size.cpus);
    entry.count("gpus", size.gpus);
    read_extra_options(entry, size.extra_options);
}

void read_storage(TableReader& table, Site& site) {
    table.each("storage_accounts", [&](const std::string& name, TableReader& entry) {
        StorageAccount& account = site.storage_accounts[name];
        entry.directory_pattern("file_share_directory", account.file_share_directory);
        entry.directory_pattern("blob_container_directory", account.blob_container_directory);
        entry.flag("read_only", account.read_only);
        read_remote_storage(entry, "file_share_remote", account.file_share_remote);
        read_remote_storage(entry, "blob_container_remote", account.blob_container_remote);
        entry.text("credentials_file", account.credentials_file);
        if (!account.credentials_file.empty() && !account.credentials_file.starts_with('/'))
            entry.refuse("credentials_file", "is not an absolute path");
    });
    table.flag("other_accounts_in_azure", site.other_accounts_in_azure);
    table.count("mount_timeout", site.mount_timeout);
    table.count("flush_timeout", site.flush_timeout);
    if (site.mount_timeout == 0) table.refuse("mount_timeout", "must be at least one second");
    table.each("file_servers", [&](const std::string& name, TableReader& entry) {
        entry.directory("directory", site.file_servers[name].directory);
    });
    table.each("named_mounts", [&](const std::string& name, TableReader& entry) {
        NamedMount& mount = site.named_mounts[name];
        entry.directory("directory", mount.directory);
        entry.flag("read_only", mount.read_only);
    });
}

void read_image_owner(TableReader& table, int& owner) {
    constexpr const char* key = "shared_image_owner";
    std::string name;
    table.text(key, name);
    if (name.empty()) return;
    const passwd* entry = getpwnam(name.c_str());
    if (entry == nullptr) {
        table.refuse(key, fmt::format("\"{}\" is not a user of this host", name));
        return;
    }
    owner = static_cast<int>(entry->pw_uid);
}

void read_images(TableReader& table, Site& site) {
    table.directory_of_user("image_directory", site.image_directory);
    table.optional_directory("shared_image_directory", site.shared_image_directory);
    read_image_owner(table, site.shared_image_owner);
    table.count("image_cache_limit", site.image_cache_limit);
    std::vector<std::string> registries;
    table.words("insecure_registries", registries);
    for (const std::string& registry : registries)
        site.insecure_registries.insert(base::lower(registry));
    table.flag("image_entrypoint", site.image_entrypoint);
    read_container_binds(table, site.container_binds);
    table.flag("inject_mpi_bridge", site.inject_mpi_bridge);
}

void read_health(TableReader& table, HealthChecks& health) {
    table.inside("health", [&](TableReader& entry) {
        entry.optional_directory("directory", health.directory);
        entry.count("time_limit", health.time_limit);
        entry.count("total_time_limit", health.total_time_limit);
        entry.count("retries", health.retries);
        constexpr const char* too_short = "must be at least one second";
        if (health.time_limit == 0) entry.refuse("time_limit", too_short);
        if (health.total_time_limit == 0) entry.refuse("total_time_limit", too_short);
    });
}

void read_site(TableReader& table, Site& site) {
    table.text("subscription", site.subscription);
    table.text("location", site.location);
    table.directory("node_directory", site.node_directory);
    table.text("python_interpreter", site.python_interpreter);
    table.text("default_partition", site.default_partition);
    table.text("account", site.account);
    table.text("qos", site.qos);
    table.flag("exclusive", site.exclusive);
    table.text("mpi", site.mpi);
    table.flag("any_vm_size", site.any_vm_size);
    table.flag("webhooks_over_http", site.webhooks_over_http);
    table.pairs("environment", site.environment);
    table.each("vm_sizes", [&](const std::string& name, TableReader& entry) {
        read_vm_size(entry, site.vm_sizes[base::upper(name)]);
    });
    read_storage(table, site);
    read_images(table, site);
    read_health(table, site.health);
    table.flag("note_failed_nodes", site.note_failed_nodes);
    read_policy(table, site.policy);
    for (const auto& [name, rules] : site.policy.vm_sizes) {
        if (!site.vm_sizes.contains(name))
            table.refuse("policy", fmt::format("vm_sizes.{} is not in the site's vm_sizes", name));
    }
    table.finish();
}

// Leaves the table that the file returns on top of the stack.
base::Result<void> run_file(SandboxedLua& lua, const std::filesystem::path& path) {
    const auto text = TRY(base::read_file(path, largest_site_file));
    TRY(lua.run(text, path.string()));
    if (lua_type(lua.state(), -1) == LUA_TTABLE) return {};
    return base::fail("the file must return one table", path.string(),
                      "it begins with \"return {\" and ends with \"}\"",
                      base::ExitCode::bad_job_file);
}

}  // namespace

base::Result<Site> load(const std::filesystem::path& path) {
    SandboxedLua lua;
    TRY(run_file(lua, path));
    Site site;
    site.source = path.string();
    std::optional<base::Error> fault;
    TableReader table(lua.state(), lua_gettop(lua.state()), "", fault);
    read_site(table, site);
    if (!fault) return site;
    fault->where = path.string();
    return tl::unexpected<base::Error>(std::move(*fault));
}

base::Result<std::vector<std::string>> keys_given_by(const std::filesystem::path& path) {
    SandboxedLua lua;
    TRY(run_file(lua, path));
    std::vector<std::string> keys;
    lua_pushnil(lua.state());
    while (lua_next(lua.state(), -2) != 0) {
        lua_pop(lua.state(), 1);
        // lua_tolstring would change the key of another type, and confuse lua_next.
        if (lua_type(lua.state(), -1) == LUA_TSTRING)
            keys.emplace_back(lua_tolstring(lua.state(), -1, nullptr));
    }
    return keys;
}

base::Result<Site> load_default() {
    if (const auto path = base::variable("BATCHAI_SITE")) return load(*path);
    std::error_code error;
    const std::filesystem::path system = BATCHAI_SYSCONFDIR "/site.lua";
    // A file that nobody can look for may be there, and say something.
    if (std::filesystem::exists(system, error) || error) return load(system);
    return Site{};
}

}  // namespace batchai::site

// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/refused.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/tree/tree.hpp"
#include "cli/tree/walk.hpp"

namespace batchai::cli {

namespace {

constexpr std::string_view no_cloud = "it manages resources of Azure, and Slurm has none of them";
constexpr std::string_view no_vault = "there is no key vault here";
constexpr std::string_view no_keys =
    "the directories of an account are opened with your own rights, so there are no keys or "
    "signatures";
constexpr std::string_view no_snapshots = "directories have no snapshots, versions or leases";
constexpr std::string_view no_metadata = "files of a directory have no metadata";
constexpr std::string_view cp_instead =
    "shares are directories: `az storage share show --query path` prints where one is, and cp, "
    "rsync and chmod work there";

constexpr std::array commands{
    RefusedCommand{
        "cluster node exec", "a user cannot enter a node of Slurm without a job on it",
        "`az batchai job node exec` enters a node of a running job, and `srun --pty bash` "
        "starts a shell in a new one"},
    RefusedCommand{"cluster list-nodes", "this is its name before Batch AI's release of 2018",
                   "use `az batchai cluster node list`"},
    RefusedCommand{"cluster list-files", "this is its name before Batch AI's release of 2018",
                   "use `az batchai cluster file list`"},
    RefusedCommand{"job list-files", "this is its name before Batch AI's release of 2018",
                   "use `az batchai job file list`"},
    RefusedCommand{"job stream-file", "this is its name before Batch AI's release of 2018",
                   "use `az batchai job file stream`"},
    RefusedCommand{"keyvault", no_vault,
                   "a secret of a job file can come from your shell (fromEnv) or from a file that "
                   "only you can read (fromFile)"},
    RefusedCommand{"vm", no_cloud, "the nodes are Slurm's: see `sinfo`"},
    RefusedCommand{"vmss", no_cloud, "the nodes are Slurm's: see `sinfo`"},
    RefusedCommand{"network", no_cloud, "the network is the site's"},
    RefusedCommand{"ad", no_cloud, "users and groups are those of the system"},
    RefusedCommand{"role", no_cloud, "rights are those of files and of Slurm's accounts"},
    RefusedCommand{"acr", no_cloud,
                   "containerSettings of a job file takes images of any registry, and `batchai "
                   "image pull` imports one before the job"},
    RefusedCommand{"batch", no_cloud, "jobs are those of `az batchai job` and of Slurm"},
    RefusedCommand{"ml", no_cloud, "jobs are those of `az batchai job` and of Slurm"},
    RefusedCommand{"aks", no_cloud, ""},
    RefusedCommand{"resource", no_cloud, "`az batchai … show --ids` shows a resource by its id"},
    RefusedCommand{"deployment", no_cloud, ""},
    RefusedCommand{"extension", "this program has no extensions", ""},
    RefusedCommand{"upgrade", "the version is that of the installed packages",
                   "ask the admin for another one"},
    RefusedCommand{"group update", "a group has no properties besides its name and tags", ""},
    RefusedCommand{"group export", no_cloud, ""},
    RefusedCommand{"group lock", no_cloud, ""},
    RefusedCommand{"group deployment", no_cloud, ""},
    RefusedCommand{"provider list", no_cloud, ""},
    RefusedCommand{"provider show", no_cloud, ""},
    RefusedCommand{"storage account keys renew", no_keys, ""},
    RefusedCommand{"storage account show-connection-string", no_keys,
                   "`--account-name` alone names an account"},
    RefusedCommand{"storage account generate-sas", no_keys, ""},
    RefusedCommand{"storage account update", "an account has no properties that can be changed",
                   ""},
    RefusedCommand{"storage account network-rule", no_cloud, ""},
    RefusedCommand{"storage account management-policy", no_cloud, ""},
    RefusedCommand{"storage share generate-sas", no_keys, ""},
    RefusedCommand{"storage share policy", no_keys, ""},
    RefusedCommand{"storage share snapshot", no_snapshots, cp_instead},
    RefusedCommand{"storage share metadata", no_metadata, ""},
    RefusedCommand{"storage share update", "the file system has the quotas", "ask the admin"},
    RefusedCommand{"storage directory metadata", no_metadata, ""},
    RefusedCommand{"storage file copy", "nothing is copied by a server here", cp_instead},
    RefusedCommand{"storage file resize", "this is left to programs of the system", cp_instead},
    RefusedCommand{"storage file update", no_metadata, ""},
    RefusedCommand{"storage file metadata", no_metadata, ""},
    RefusedCommand{"storage file generate-sas", no_keys, ""},
    RefusedCommand{"storage container generate-sas", no_keys, ""},
    RefusedCommand{"storage container policy", no_keys, ""},
    RefusedCommand{"storage container set-permission", no_keys, cp_instead},
    RefusedCommand{"storage container show-permission", no_keys, cp_instead},
    RefusedCommand{"storage container lease", no_snapshots, ""},
    RefusedCommand{"storage container metadata", no_metadata, ""},
    RefusedCommand{"storage blob copy", "nothing is copied by a server here", cp_instead},
    RefusedCommand{"storage blob generate-sas", no_keys, ""},
    RefusedCommand{"storage blob incremental-copy", no_snapshots, ""},
    RefusedCommand{"storage blob lease", no_snapshots, ""},
    RefusedCommand{"storage blob metadata", no_metadata, ""},
    RefusedCommand{"storage blob restore", no_snapshots, ""},
    RefusedCommand{"storage blob service-properties", no_cloud, ""},
    RefusedCommand{"storage blob set-tier", no_cloud, ""},
    RefusedCommand{"storage blob snapshot", no_snapshots, ""},
    RefusedCommand{"storage blob sync", "this is left to programs of the system", cp_instead},
    RefusedCommand{"storage blob undelete", no_snapshots, ""},
    RefusedCommand{"storage blob update", no_metadata, ""},
    RefusedCommand{"storage copy", "nothing is copied by a server here", cp_instead},
    RefusedCommand{"storage cors", no_cloud, ""},
    RefusedCommand{"storage entity", no_cloud, ""},
    RefusedCommand{"storage logging", no_cloud, ""},
    RefusedCommand{"storage message", no_cloud, ""},
    RefusedCommand{"storage metrics", no_cloud, ""},
    RefusedCommand{"storage queue", no_cloud, ""},
    RefusedCommand{"storage table", no_cloud, ""},
};

constexpr std::string_view site_nodes = "the nodes, their system and their network are the site's";
constexpr std::string_view site_server = "the file server is the site's";
constexpr std::string_view no_types = "files of a directory have no types, encodings or checksums";
constexpr std::string_view one_copy = "one file is copied at a time";
constexpr std::string_view one_kind = "all accounts are directories of the site";

constexpr bool flag = true;
constexpr bool value = false;
constexpr Effect accepted = Effect::accepted;
constexpr Effect refused = Effect::refused;
constexpr Effect noted = Effect::noted;

constexpr std::string_view no_system =
    "the nodes' system is the site's; a job's own image is the containerSettings of its job file";
constexpr std::string_view no_region = "a region belongs to a workspace";

constexpr std::array options{
    AzureOption{"cluster create", "--image,-i", value, noted, no_system},
    AzureOption{"cluster create", "--custom-image", value, noted, no_system},
    AzureOption{"cluster create", "--storage-account-key", value, noted,
                "a cluster keeps no key; each job brings it (AZURE_BATCHAI_STORAGE_KEY), or the "
                "site has it"},
    AzureOption{"cluster create", "--subnet", value, noted, site_nodes},
    AzureOption{"cluster create", "--location,-l", value, noted, no_region},
    AzureOption{"job create", "--location,-l", value, noted, no_region},
    AzureOption{"file-server create", "--config-file,-f,-c", value, refused,
                "the file servers are those of site.lua, so there is nothing to configure"},
    AzureOption{"file-server create", "--subnet", value, accepted, site_server},
    AzureOption{"file-server create", "--ssh-key,-k", value, accepted, site_server},
    AzureOption{"file-server create", "--password,-p", value, accepted, site_server},
    AzureOption{"file-server create", "--generate-ssh-keys", flag, accepted, site_server},
    AzureOption{"storage account create", "--kind", value, accepted, one_kind},
    AzureOption{"storage account create", "--access-tier", value, accepted, one_kind},
    AzureOption{"storage account create", "--https-only", value, accepted, one_kind},
    AzureOption{"storage account create", "--encryption,--encryption-services", value, accepted,
                one_kind},
    AzureOption{"storage account create", "--custom-domain", value, accepted, one_kind},
    AzureOption{"storage account create", "--bypass", value, accepted, one_kind},
    AzureOption{"storage account create", "--default-action", value, accepted, one_kind},
    AzureOption{"storage account create", "--assign-identity", flag, accepted, one_kind},
    AzureOption{"storage share create", "--quota", value, accepted,
                "the file system has the quotas"},
    AzureOption{"storage share create", "--metadata", value, accepted, no_metadata},
    AzureOption{"storage share delete", "--delete-snapshots", value, accepted, no_snapshots},
    AzureOption{"storage share delete", "--snapshot", value, refused, no_snapshots},
    AzureOption{"storage directory create", "--metadata", value, accepted, no_metadata},
    AzureOption{"storage file upload", "--content-type,--content-type-set", value, accepted,
                no_types},
    AzureOption{"storage file upload", "--content-encoding,--content-encoding-set", value, accepted,
                no_types},
    AzureOption{"storage file upload", "--content-language", value, accepted, no_types},
    AzureOption{"storage file upload", "--content-disposition", value, accepted, no_types},
    AzureOption{"storage file upload", "--content-cache-control,--content-cache", value, accepted,
                no_types},
    AzureOption{"storage file upload", "--content-md5", value, accepted, no_types},
    AzureOption{"storage file upload", "--metadata", value, accepted, no_metadata},
    AzureOption{"storage file upload", "--validate-content", flag, accepted, no_types},
    AzureOption{"storage file upload", "--max-connections", value, accepted, one_copy},
    AzureOption{"storage file download", "--validate-content", flag, accepted, no_types},
    AzureOption{"storage file download", "--max-connections", value, accepted, one_copy},
    AzureOption{"storage file download", "--open-mode", value, accepted,
                "the new file replaces an old one when it is complete"},
    AzureOption{"storage file download", "--snapshot", value, refused, no_snapshots},
    AzureOption{"storage file list", "--snapshot", value, refused, no_snapshots},
    AzureOption{"storage file list", "--marker", value, accepted,
                "a list is always complete, so there is no next part"},
    AzureOption{"storage file upload-batch", "--max-connections", value, accepted, one_copy},
    AzureOption{"storage file upload-batch", "--content-type", value, accepted, no_types},
    AzureOption{"storage file upload-batch", "--metadata", value, accepted, no_metadata},
    AzureOption{"storage file upload-batch", "--validate-content", flag, accepted, no_types},
    AzureOption{"storage file download-batch", "--max-connections", value, accepted, one_copy},
    AzureOption{"storage file download-batch", "--validate-content", flag, accepted, no_types},
    AzureOption{"storage file download-batch", "--snapshot", value, refused, no_snapshots},
    AzureOption{"storage container create", "--public-access", value, accepted,
                "the rights are those of the directory"},
    AzureOption{"storage container create", "--metadata", value, accepted, no_metadata},
    AzureOption{"storage container delete", "--lease-id", value, refused, no_snapshots},
    AzureOption{"storage blob upload", "--type,-t", value, accepted, "every blob is a file"},
    AzureOption{"storage blob upload", "--tier", value, accepted, one_kind},
    AzureOption{"storage blob upload", "--content-type", value, accepted, no_types},
    AzureOption{"storage blob upload", "--metadata", value, accepted, no_metadata},
    AzureOption{"storage blob upload", "--validate-content", flag, accepted, no_types},
    AzureOption{"storage blob upload", "--max-connections", value, accepted, one_copy},
    AzureOption{"storage blob upload", "--lease-id", value, refused, no_snapshots},
    AzureOption{"storage blob download", "--max-connections", value, accepted, one_copy},
    AzureOption{"storage blob download", "--validate-content", flag, accepted, no_types},
    AzureOption{"storage blob download", "--snapshot", value, refused, no_snapshots},
    AzureOption{"storage blob list", "--include", value, accepted, no_snapshots},
    AzureOption{"storage blob list", "--marker", value, accepted,
                "a list is always complete, so there is no next part"},
    AzureOption{"storage blob delete", "--delete-snapshots", value, accepted, no_snapshots},
    AzureOption{"storage blob delete", "--snapshot", value, refused, no_snapshots},
    AzureOption{"storage blob upload-batch", "--type,-t", value, accepted, "every blob is a file"},
    AzureOption{"storage blob upload-batch", "--content-type", value, accepted, no_types},
    AzureOption{"storage blob upload-batch", "--metadata", value, accepted, no_metadata},
    AzureOption{"storage blob upload-batch", "--max-connections", value, accepted, one_copy},
    AzureOption{"storage blob upload-batch", "--validate-content", flag, accepted, no_types},
    AzureOption{"storage blob download-batch", "--max-connections", value, accepted, one_copy},
    AzureOption{"storage blob delete-batch", "--delete-snapshots", value, accepted, no_snapshots},
};

bool has_any(const CLI::App& app, std::string_view names) {
    for (const auto& option : app.get_options()) {
        for (const auto& word : option_words(*option)) {
            for (const std::string_view name : base::split(names, ',')) {
                if (word == name) return true;
            }
        }
    }
    return false;
}

void add_option(CommandTree& tree, CLI::App& leaf, const AzureOption& option) {
    const std::string names(option.names);
    const auto take = [&tree, &option] {
        const auto& all = option.names;
        auto text = fmt::format("{}: {}", all.substr(0, all.find(',')), option.reason);
        if (option.effect == Effect::refused) tree.refused_options.push_back(std::move(text));
        if (option.effect == Effect::noted) tree.noted_options.push_back(std::move(text));
    };
    const bool is_refused = option.effect == Effect::refused;
    const auto text = fmt::format(
        "{}: {}", is_refused ? "Not available" : "Accepted without effect", option.reason);
    const auto* const group = is_refused ? "Not Available" : "Accepted Without Effect";
    if (option.is_flag) {
        leaf.add_flag_function(
                names, [take](std::int64_t /*count*/) { take(); }, text)
            ->group(group);
        return;
    }
    // --metadata and others take several words; --https-only and others may have none.
    leaf.add_option_function<std::vector<std::string>>(
            names, [take](const std::vector<std::string>& /*values*/) { take(); }, text)
        ->type_name("TEXT")
        ->expected(0, CLI::detail::expected_max_vector_size)
        ->group(group);
}

}  // namespace

std::span<const RefusedCommand> refused_commands() {
    return commands;
}

std::span<const AzureOption> azure_options() {
    return options;
}

std::string azure_command(std::string_view path) {
    constexpr std::array<std::string_view, 7> of_batch_ai{
        "workspace", "experiment", "cluster", "job", "file-server", "list-usages", "usage"};
    const auto first = path.substr(0, path.find(' '));
    const bool batch_ai =
        std::find(of_batch_ai.begin(), of_batch_ai.end(), first) != of_batch_ai.end();
    return fmt::format("az {}{}", batch_ai ? "batchai " : "", path);
}

std::string refused_commands_page() {
    std::string page = "| Command | Why | Instead |\n|---|---|---|\n";
    for (const RefusedCommand& command : commands)
        page += fmt::format("| `{}` | {} | {} |\n", azure_command(command.path), command.reason,
                            command.instead);
    return page;
}

namespace {

std::string_view effect_text(Effect effect) {
    if (effect == Effect::refused) return "refused";
    return effect == Effect::noted ? "accepted with a note, none" : "accepted, none";
}

}  // namespace

std::string azure_options_page() {
    std::string page = "| Command | Options | Effect | Why |\n|---|---|---|---|\n";
    const auto same_row = [](const AzureOption& a, const AzureOption& b) {
        return a.command == b.command && a.effect == b.effect && a.reason == b.reason;
    };
    for (std::size_t i = 0; i < options.size();) {
        const AzureOption& row = options.at(i);
        std::string names;
        for (; i < options.size() && same_row(options.at(i), row); ++i) {
            for (const std::string_view name : base::split(options.at(i).names, ','))
                names += fmt::format("{}`{}`", names.empty() ? "" : ", ", name);
        }
        page += fmt::format("| `{}` | {} | {} | {} |\n", azure_command(row.command), names,
                            effect_text(row.effect), row.reason);
    }
    return page;
}

const RefusedCommand* refused_command(std::string_view path) {
    for (const RefusedCommand& command : commands) {
        if (path == command.path || path.starts_with(std::string(command.path) + " "))
            return &command;
    }
    return nullptr;
}

void add_azure_options(CommandTree& tree) {
    for (const auto& command : all_commands(tree.app)) {
        const auto path = command.text();
        for (const AzureOption& option : options) {
            if (path != option.command || has_any(*command.app, option.names)) continue;
            // all_commands() looks at the tree that this function changes.
            add_option(tree, *const_cast<CLI::App*>(command.app), option);  // NOLINT
        }
    }
}

}  // namespace batchai::cli

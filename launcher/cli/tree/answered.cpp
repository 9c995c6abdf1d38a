// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/answered.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/tree/builder.hpp"
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
    AnsweredCommand{
        "cluster node exec", "a user cannot enter a node of Slurm without a job on it",
        "`az batchai job node exec` enters a node of a running job, and `srun --pty bash` "
        "starts a shell in a new one"},
    AnsweredCommand{"cluster list-nodes", "this is its name before Batch AI's release of 2018",
                    "use `az batchai cluster node list`"},
    AnsweredCommand{"cluster list-files", "this is its name before Batch AI's release of 2018",
                    "use `az batchai cluster file list`"},
    AnsweredCommand{"job list-files", "this is its name before Batch AI's release of 2018",
                    "use `az batchai job file list`"},
    AnsweredCommand{"job stream-file", "this is its name before Batch AI's release of 2018",
                    "use `az batchai job file stream`"},
    AnsweredCommand{"keyvault", no_vault,
                    "a secret of a job file can come from your shell (fromEnv) or from a file that "
                    "only you can read (fromFile)"},
    AnsweredCommand{"vm", no_cloud, "the nodes are Slurm's: see `sinfo`"},
    AnsweredCommand{"vmss", no_cloud, "the nodes are Slurm's: see `sinfo`"},
    AnsweredCommand{"network", no_cloud, "the network is the site's"},
    AnsweredCommand{"ad", no_cloud, "users and groups are those of the system"},
    AnsweredCommand{"role", no_cloud, "rights are those of files and of Slurm's accounts"},
    AnsweredCommand{"acr", no_cloud,
                    "containerSettings of a job file takes images of any registry, and `batchai "
                    "image pull` imports one before the job"},
    AnsweredCommand{"batch", no_cloud, "jobs are those of `az batchai job` and of Slurm"},
    AnsweredCommand{"ml", no_cloud, "jobs are those of `az batchai job` and of Slurm"},
    AnsweredCommand{"aks", no_cloud, ""},
    AnsweredCommand{"resource", no_cloud, "`az batchai … show --ids` shows a resource by its id"},
    AnsweredCommand{"deployment", no_cloud, ""},
    AnsweredCommand{"extension", "this program has no extensions", ""},
    AnsweredCommand{"upgrade", "the version is that of the installed packages",
                    "ask the admin for another one"},
    AnsweredCommand{"group update", "a group has no properties besides its name and tags", ""},
    AnsweredCommand{"group export", no_cloud, ""},
    AnsweredCommand{"group lock", no_cloud, ""},
    AnsweredCommand{"group deployment", no_cloud, ""},
    AnsweredCommand{"provider list", no_cloud, ""},
    AnsweredCommand{"provider show", no_cloud, ""},
    AnsweredCommand{"storage account keys renew", no_keys, ""},
    AnsweredCommand{"storage account show-connection-string", no_keys,
                    "`--account-name` alone names an account"},
    AnsweredCommand{"storage account generate-sas", no_keys, ""},
    AnsweredCommand{"storage account update", "an account has no properties that can be changed",
                    ""},
    AnsweredCommand{"storage account network-rule", no_cloud, ""},
    AnsweredCommand{"storage account management-policy", no_cloud, ""},
    AnsweredCommand{"storage share generate-sas", no_keys, ""},
    AnsweredCommand{"storage share policy", no_keys, ""},
    AnsweredCommand{"storage share snapshot", no_snapshots, cp_instead},
    AnsweredCommand{"storage share metadata", no_metadata, ""},
    AnsweredCommand{"storage share update", "the file system has the quotas", "ask the admin"},
    AnsweredCommand{"storage directory metadata", no_metadata, ""},
    AnsweredCommand{"storage file copy", "nothing is copied by a server here", cp_instead},
    AnsweredCommand{"storage file resize", "this is left to programs of the system", cp_instead},
    AnsweredCommand{"storage file update", no_metadata, ""},
    AnsweredCommand{"storage file metadata", no_metadata, ""},
    AnsweredCommand{"storage file generate-sas", no_keys, ""},
    AnsweredCommand{"storage container generate-sas", no_keys, ""},
    AnsweredCommand{"storage container policy", no_keys, ""},
    AnsweredCommand{"storage container set-permission", no_keys, cp_instead},
    AnsweredCommand{"storage container show-permission", no_keys, cp_instead},
    AnsweredCommand{"storage container lease", no_snapshots, ""},
    AnsweredCommand{"storage container metadata", no_metadata, ""},
    AnsweredCommand{"storage blob copy", "nothing is copied by a server here", cp_instead},
    AnsweredCommand{"storage blob generate-sas", no_keys, ""},
    AnsweredCommand{"storage blob incremental-copy", no_snapshots, ""},
    AnsweredCommand{"storage blob lease", no_snapshots, ""},
    AnsweredCommand{"storage blob metadata", no_metadata, ""},
    AnsweredCommand{"storage blob restore", no_snapshots, ""},
    AnsweredCommand{"storage blob service-properties", no_cloud, ""},
    AnsweredCommand{"storage blob set-tier", no_cloud, ""},
    AnsweredCommand{"storage blob snapshot", no_snapshots, ""},
    AnsweredCommand{"storage blob sync", "this is left to programs of the system", cp_instead},
    AnsweredCommand{"storage blob undelete", no_snapshots, ""},
    AnsweredCommand{"storage blob update", no_metadata, ""},
    AnsweredCommand{"storage copy", "nothing is copied by a server here", cp_instead},
    AnsweredCommand{"storage cors", no_cloud, ""},
    AnsweredCommand{"storage entity", no_cloud, ""},
    AnsweredCommand{"storage logging", no_cloud, ""},
    AnsweredCommand{"storage message", no_cloud, ""},
    AnsweredCommand{"storage metrics", no_cloud, ""},
    AnsweredCommand{"storage queue", no_cloud, ""},
    AnsweredCommand{"storage table", no_cloud, ""},
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
    AnsweredOption{"cluster create", "--image,-i", value, noted, no_system},
    AnsweredOption{"cluster create", "--custom-image", value, noted, no_system},
    AnsweredOption{"cluster create", "--storage-account-key", value, noted,
                   "a cluster keeps no key; each job brings it (AZURE_BATCHAI_STORAGE_KEY), or the "
                   "site has it"},
    AnsweredOption{"cluster create", "--subnet", value, noted, site_nodes},
    AnsweredOption{"cluster create", "--location,-l", value, noted, no_region},
    AnsweredOption{"job create", "--location,-l", value, noted, no_region},
    AnsweredOption{"file-server create", "--config-file,-f,-c", value, refused,
                   "the file servers are those of site.lua, so there is nothing to configure"},
    AnsweredOption{"file-server create", "--subnet", value, accepted, site_server},
    AnsweredOption{"file-server create", "--ssh-key,-k", value, accepted, site_server},
    AnsweredOption{"file-server create", "--password,-p", value, accepted, site_server},
    AnsweredOption{"file-server create", "--generate-ssh-keys", flag, accepted, site_server},
    AnsweredOption{"storage account create", "--kind", value, accepted, one_kind},
    AnsweredOption{"storage account create", "--access-tier", value, accepted, one_kind},
    AnsweredOption{"storage account create", "--https-only", value, accepted, one_kind},
    AnsweredOption{"storage account create", "--encryption,--encryption-services", value, accepted,
                   one_kind},
    AnsweredOption{"storage account create", "--custom-domain", value, accepted, one_kind},
    AnsweredOption{"storage account create", "--bypass", value, accepted, one_kind},
    AnsweredOption{"storage account create", "--default-action", value, accepted, one_kind},
    AnsweredOption{"storage account create", "--assign-identity", flag, accepted, one_kind},
    AnsweredOption{"storage share create", "--quota", value, accepted,
                   "the file system has the quotas"},
    AnsweredOption{"storage share create", "--metadata", value, accepted, no_metadata},
    AnsweredOption{"storage share delete", "--delete-snapshots", value, accepted, no_snapshots},
    AnsweredOption{"storage share delete", "--snapshot", value, refused, no_snapshots},
    AnsweredOption{"storage directory create", "--metadata", value, accepted, no_metadata},
    AnsweredOption{"storage file upload", "--content-type,--content-type-set", value, accepted,
                   no_types},
    AnsweredOption{"storage file upload", "--content-encoding,--content-encoding-set", value,
                   accepted, no_types},
    AnsweredOption{"storage file upload", "--content-language", value, accepted, no_types},
    AnsweredOption{"storage file upload", "--content-disposition", value, accepted, no_types},
    AnsweredOption{"storage file upload", "--content-cache-control,--content-cache", value,
                   accepted, no_types},
    AnsweredOption{"storage file upload", "--content-md5", value, accepted, no_types},
    AnsweredOption{"storage file upload", "--metadata", value, accepted, no_metadata},
    AnsweredOption{"storage file upload", "--validate-content", flag, accepted, no_types},
    AnsweredOption{"storage file upload", "--max-connections", value, accepted, one_copy},
    AnsweredOption{"storage file download", "--validate-content", flag, accepted, no_types},
    AnsweredOption{"storage file download", "--max-connections", value, accepted, one_copy},
    AnsweredOption{"storage file download", "--open-mode", value, accepted,
                   "the new file replaces an old one when it is complete"},
    AnsweredOption{"storage file download", "--snapshot", value, refused, no_snapshots},
    AnsweredOption{"storage file list", "--snapshot", value, refused, no_snapshots},
    AnsweredOption{"storage file list", "--marker", value, accepted,
                   "a list is always complete, so there is no next part"},
    AnsweredOption{"storage file upload-batch", "--max-connections", value, accepted, one_copy},
    AnsweredOption{"storage file upload-batch", "--content-type", value, accepted, no_types},
    AnsweredOption{"storage file upload-batch", "--metadata", value, accepted, no_metadata},
    AnsweredOption{"storage file upload-batch", "--validate-content", flag, accepted, no_types},
    AnsweredOption{"storage file download-batch", "--max-connections", value, accepted, one_copy},
    AnsweredOption{"storage file download-batch", "--validate-content", flag, accepted, no_types},
    AnsweredOption{"storage file download-batch", "--snapshot", value, refused, no_snapshots},
    AnsweredOption{"storage container create", "--public-access", value, accepted,
                   "the rights are those of the directory"},
    AnsweredOption{"storage container create", "--metadata", value, accepted, no_metadata},
    AnsweredOption{"storage container delete", "--lease-id", value, refused, no_snapshots},
    AnsweredOption{"storage blob upload", "--type,-t", value, accepted, "every blob is a file"},
    AnsweredOption{"storage blob upload", "--tier", value, accepted, one_kind},
    AnsweredOption{"storage blob upload", "--content-type", value, accepted, no_types},
    AnsweredOption{"storage blob upload", "--metadata", value, accepted, no_metadata},
    AnsweredOption{"storage blob upload", "--validate-content", flag, accepted, no_types},
    AnsweredOption{"storage blob upload", "--max-connections", value, accepted, one_copy},
    AnsweredOption{"storage blob upload", "--lease-id", value, refused, no_snapshots},
    AnsweredOption{"storage blob download", "--max-connections", value, accepted, one_copy},
    AnsweredOption{"storage blob download", "--validate-content", flag, accepted, no_types},
    AnsweredOption{"storage blob download", "--snapshot", value, refused, no_snapshots},
    AnsweredOption{"storage blob list", "--include", value, accepted, no_snapshots},
    AnsweredOption{"storage blob list", "--marker", value, accepted,
                   "a list is always complete, so there is no next part"},
    AnsweredOption{"storage blob delete", "--delete-snapshots", value, accepted, no_snapshots},
    AnsweredOption{"storage blob delete", "--snapshot", value, refused, no_snapshots},
    AnsweredOption{"storage blob upload-batch", "--type,-t", value, accepted,
                   "every blob is a file"},
    AnsweredOption{"storage blob upload-batch", "--content-type", value, accepted, no_types},
    AnsweredOption{"storage blob upload-batch", "--metadata", value, accepted, no_metadata},
    AnsweredOption{"storage blob upload-batch", "--max-connections", value, accepted, one_copy},
    AnsweredOption{"storage blob upload-batch", "--validate-content", flag, accepted, no_types},
    AnsweredOption{"storage blob download-batch", "--max-connections", value, accepted, one_copy},
    AnsweredOption{"storage blob delete-batch", "--delete-snapshots", value, accepted,
                   no_snapshots},
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

void add_option(CommandTree& tree, CLI::App& leaf, const AnsweredOption& answered) {
    const std::string names(answered.names);
    const auto take = [&tree, &answered] {
        const auto& all = answered.names;
        auto text = fmt::format("{}: {}", all.substr(0, all.find(',')), answered.reason);
        if (answered.effect == Effect::refused) tree.refused_options.push_back(std::move(text));
        if (answered.effect == Effect::noted) tree.noted_options.push_back(std::move(text));
    };
    const bool is_refused = answered.effect == Effect::refused;
    const auto text = fmt::format(
        "{}: {}", is_refused ? "Not available" : "Accepted without effect", answered.reason);
    const auto* const group = is_refused ? "Not Available" : "Accepted Without Effect";
    if (answered.is_flag) {
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

std::span<const AnsweredCommand> answered_commands() {
    return commands;
}

std::span<const AnsweredOption> answered_options() {
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

std::string answered_commands_page() {
    std::string page = "| Command | Why | Instead |\n|---|---|---|\n";
    for (const AnsweredCommand& command : commands)
        page += fmt::format("| `{}` | {} | {} |\n", azure_command(command.path), command.reason,
                            command.instead);
    return page;
}

namespace {

std::string_view word_of(Effect effect) {
    if (effect == Effect::refused) return "refused";
    return effect == Effect::noted ? "accepted with a note, none" : "accepted, none";
}

}  // namespace

std::string answered_options_page() {
    std::string page = "| Command | Options | Effect | Why |\n|---|---|---|---|\n";
    const auto same_row = [](const AnsweredOption& a, const AnsweredOption& b) {
        return a.command == b.command && a.effect == b.effect && a.reason == b.reason;
    };
    for (std::size_t i = 0; i < options.size();) {
        const AnsweredOption& row = options.at(i);
        std::string names;
        for (; i < options.size() && same_row(options.at(i), row); ++i) {
            for (const std::string_view name : base::split(options.at(i).names, ','))
                names += fmt::format("{}`{}`", names.empty() ? "" : ", ", name);
        }
        page += fmt::format("| `{}` | {} | {} | {} |\n", azure_command(row.command), names,
                            word_of(row.effect), row.reason);
    }
    return page;
}

const AnsweredCommand* answered_command(std::string_view path) {
    for (const AnsweredCommand& command : commands) {
        if (path == command.path || path.starts_with(std::string(command.path) + " "))
            return &command;
    }
    return nullptr;
}

void add_answered_options(CommandTree& tree) {
    for (const auto& command : all_commands(tree.app)) {
        const auto path = command.text();
        for (const AnsweredOption& answered : options) {
            if (path != answered.command || has_any(*command.app, answered.names)) continue;
            // all_commands() looks at the tree that this function changes.
            add_option(tree, *const_cast<CLI::App*>(command.app), answered);  // NOLINT
        }
    }
}

}  // namespace batchai::cli

// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "job/model.hpp"
#include "job/schema/storage_account.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

// The meaning of a job file's mountOptions here. They are written for mount(8) or blobfuse: "rw",
// "-o vers=4,hard", "--use-https=true -o attr_timeout=240 -o allow_other".
struct MountOptions {
    bool read_only = false;
    bool no_execute = false;
    // Known options that have no effect here, because the site mounts the file server, and because
    // the files that a job sees belong to its user.
    std::vector<std::string> ignored;
    std::vector<std::string> unknown;
};

// The hint for mountOptions that are refused.
constexpr std::string_view mount_options_help =
    "ro, rw and noexec have an effect; options of mount(8), nfs(5) and blobfuse that only tune the "
    "mount are ignored";

// Options of mount(8), nfs(5) and blobfuse. Each name has a blank before and after it.
constexpr std::string_view without_effect =
    " _netdev ac acdirmax acdirmin acl acregmax acregmin actimeo allow_other async atime"
    " attr_timeout auto auto_cache bg big_writes cache-size-mb cto default_permissions"
    " defaults dir_mode diratime entry_timeout exec fg file-cache-timeout-in-seconds"
    " file_mode fsc fsname gid hard intr kernel_cache lazytime local_lock lock log-level"
    " lookupcache max_read max_write minorversion mountport mountproto nconnect"
    " negative_timeout nfsvers noac noacl noatime noauto nocto nodev nodiratime nofail nofsc"
    " nointr nolock nordirplus norelatime noresvport nosharecache nosuid nouser port proto"
    " rdirplus rdma relatime resvport retrans retry rsize sec sharecache soft softerr"
    " strictatime sync tcp timeo tmp-path udp uid umask use-https user users vers wsize ";

bool has_no_effect(const std::string& name) {
    return without_effect.find(" " + name + " ") != std::string_view::npos;
}

// Removes the "-o" of "-oro" and the "--" of "--use-https=true".
std::string_view bare(std::string_view word) {
    if (word.starts_with("--")) return word.substr(2);
    if (word.starts_with("-o")) return word.substr(2);
    return word;
}

void read_word(std::string_view word, MountOptions& options) {
    const std::string name(word.substr(0, word.find('=')));
    if (word == "ro") {
        options.read_only = true;
    } else if (word == "rw") {
        options.read_only = false;
    } else if (word == "noexec") {
        options.no_execute = true;
    } else if (has_no_effect(name)) {
        options.ignored.push_back(name);
    } else {
        // The value is left out, because it may be a password.
        options.unknown.push_back(name);
    }
}

MountOptions read_mount_options(const std::optional<std::string>& text) {
    MountOptions options;
    if (!text) return options;
    std::string words = *text;
    std::replace_if(
        words.begin(), words.end(), [](char c) { return c == '\t' || c == '\n' || c == ','; }, ' ');
    for (const std::string_view word : base::split(words, ' ')) {
        if (const std::string_view option = bare(word); !option.empty()) read_word(option, options);
    }
    return options;
}

// Placeholders are replaced before planning. A placeholder that is left is reported with the same
// diagnostic as in that earlier stage, so that a caller who collects the diagnostics of both stages
// can recognize duplicates.
void report_placeholders(Planning& planning) {
    job::JobSpec spec = planning.spec;
    for (job::Diagnostic& fault :
         job::apply_storage_account(spec, std::nullopt, planning.positions))
        planning.findings.add(std::move(fault));
}

template <typename Map>
std::string known_names(const Map& map, std::string_view what, std::string_view site_key) {
    std::vector<std::string_view> names;
    names.reserve(map.size());
    for (const auto& [name, value] : map)
        names.emplace_back(name);
    if (names.empty())
        return fmt::format("this site has no {}; the admin adds them to {} in site.lua", what,
                           site_key);
    return fmt::format("this site has the {} {}", what, fmt::join(names, ", "));
}

void plan_volume(const VolumeList& list, const job::FileServerMount& wanted, std::size_t index) {
    const auto& servers = list.planning.site.file_servers;
    const auto components = base::split(wanted.file_server_id, '/');
    const std::string name(components.back());
    const auto server = servers.find(name);
    if (server == servers.end()) {
        list.fault(Finding::unknown_file_server, wanted.key, index, "fileServer/id",
                   fmt::format("this site has no file server \"{}\"", name),
                   known_names(servers, "file servers", "file_servers"));
        return;
    }
    std::string directory = normalized(wanted.source_directory.value_or(""));
    if (directory.starts_with('/')) directory.erase(0, 1);
    if (!stays_below(directory)) {
        list.fault(
            Finding::bad_path, wanted.key, index, "sourceDirectory",
            fmt::format("\"sourceDirectory\" must not have \"..\" components: \"{}\"", directory),
            "write the directory below the file server's own");
        return;
    }
    Mount mount;
    mount.kind = wanted.key;
    mount.name = name;
    mount.source_root = normalized(server->second.directory);
    mount.source = normalized(fmt::format("{}/{}", mount.source_root, directory));
    mount.target = wanted.relative_mount_path;
    mount.scope = list.scope;
    mount.mount_seconds = list.planning.site.mount_timeout;
    if (apply_mount_options(list, index, wanted.mount_options, mount))
        list.planning.plan.mounts.push_back(std::move(mount));
}

void plan_volume(const VolumeList& list, const job::UnmanagedFileSystem& wanted,
                 std::size_t index) {
    const auto& mounts = list.planning.site.named_mounts;
    const auto named = mounts.find(base::trim(wanted.mount_command));
    if (named == mounts.end()) {
        // The message does not quote the command, because people write passwords into it.
        list.fault(Finding::unknown_mount, wanted.key, index, "mountCommand",
                   "\"mountCommand\" does not name a mount of this site; a command of a job file "
                   "is never run as root",
                   known_names(mounts, "mounts", "named_mounts") +
                       "; a name in named_mounts may be a whole command, which is only compared "
                       "and never run");
        return;
    }
    Mount mount;
    mount.kind = wanted.key;
    mount.name = named->first;
    mount.source = normalized(named->second.directory);
    mount.target = wanted.relative_mount_path;
    mount.scope = list.scope;
    mount.read_only = named->second.read_only;
    mount.mount_seconds = list.planning.site.mount_timeout;
    list.planning.plan.mounts.push_back(std::move(mount));
}

void plan_list(const VolumeList& list) {
    job::each_volume(list.volumes, [&](const auto& wanted, std::size_t index) {
        plan_volume(list, wanted, index);
    });
}

}  // namespace

void VolumeList::fault(Finding finding, std::string_view kind, std::size_t index,
                       std::string_view key, const std::string& message, std::string hint) const {
    if (scope == MountScope::job) {
        planning.findings.add(finding,
                              fmt::format("/properties/mountVolumes/{}/{}/{}", kind, index, key),
                              message, std::move(hint));
        return;
    }
    planning.findings.add(finding, {},
                          fmt::format("cluster \"{}\": {} {}: {}", planning.inputs.cluster->name,
                                      kind, index + 1, message),
                          std::move(hint));
}

bool apply_mount_options(const VolumeList& list, std::size_t index,
                         const std::optional<std::string>& options, Mount& mount) {
    const MountOptions read = read_mount_options(options);
    if (!read.unknown.empty()) {
        list.fault(
            Finding::bad_mount_option, mount.kind, index, "mountOptions",
            fmt::format("\"mountOptions\" has unknown options: {}", fmt::join(read.unknown, ", ")),
            std::string(mount_options_help));
        return false;
    }
    mount.read_only = mount.read_only || read.read_only;
    mount.no_execute = mount.no_execute || read.no_execute;
    if (!read.ignored.empty())
        list.fault(Finding::no_effect, mount.kind, index, "mountOptions",
                   fmt::format("these options have no effect: {}", fmt::join(read.ignored, ", ")),
                   "the site decides how it is mounted; \"ro\" and \"noexec\" are followed");
    return true;
}

void plan_mounts(Planning& planning) {
    report_placeholders(planning);
    if (planning.inputs.cluster)
        plan_list({planning, planning.inputs.cluster->mount_volumes, MountScope::cluster});
    plan_list({planning, planning.spec.mount_volumes, MountScope::job});
}

}  // namespace batchai::plan

// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "job/schema/storage_account.hpp"
#include "plan/mount_options.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"
#include "plan/storage_mounts.hpp"

namespace batchai::plan {

namespace {

constexpr std::string_view file_servers = "fileServers";
constexpr std::string_view unmanaged = "unmanagedFileSystems";

// Placeholders are replaced before planning; one that is left is the same fault as there, so that
// a caller who collects both sees equal diagnostics.
void report_placeholders(Planning& planning) {
    job::JobSpec spec = planning.spec;
    for (job::Diagnostic& fault :
         job::apply_storage_account(spec, std::nullopt, planning.positions))
        planning.findings.add(std::move(fault));
}

bool stays_below(std::string_view directory) {
    if (directory.empty()) return true;
    const auto components = base::split(directory, '/');
    return std::all_of(components.begin(), components.end(), is_component);
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

void add_file_server(const VolumeList& list, const job::FileServerMount& wanted,
                     std::size_t index) {
    const auto& servers = list.planning.site.file_servers;
    const auto components = base::split(wanted.file_server_id, '/');
    const std::string name(components.back());
    const auto server = servers.find(name);
    if (server == servers.end()) {
        list.fault(Finding::unknown_file_server, file_servers, index, "fileServer/id",
                   fmt::format("this site has no file server \"{}\"", name),
                   known_names(servers, "file servers", "file_servers"));
        return;
    }
    std::string directory = normalized(wanted.source_directory.value_or(""));
    if (directory.starts_with('/')) directory.erase(0, 1);
    if (!stays_below(directory)) {
        list.fault(
            Finding::bad_path, file_servers, index, "sourceDirectory",
            fmt::format("\"sourceDirectory\" must not have \"..\" components: \"{}\"", directory),
            "write the directory below the file server's own");
        return;
    }
    Mount mount;
    mount.kind = file_servers;
    mount.name = name;
    mount.source_root = normalized(server->second.directory);
    mount.source = normalized(fmt::format("{}/{}", mount.source_root, directory));
    mount.target = wanted.relative_mount_path;
    mount.scope = list.scope;
    mount.mount_seconds = list.planning.site.mount_timeout;
    if (apply_mount_options(list, index, wanted.mount_options, mount))
        list.planning.plan.mounts.push_back(std::move(mount));
}

void add_unmanaged(const VolumeList& list, const job::UnmanagedFileSystem& wanted,
                   std::size_t index) {
    const auto& mounts = list.planning.site.named_mounts;
    const auto named = mounts.find(base::trim(wanted.mount_command));
    if (named == mounts.end()) {
        // The command is not quoted: people write passwords into it.
        list.fault(Finding::unknown_mount, unmanaged, index, "mountCommand",
                   "\"mountCommand\" does not name a mount of this site; a command of a job file "
                   "is never run as root",
                   known_names(mounts, "mounts", "named_mounts") +
                       "; a name there may also be a whole command, which is then found but not "
                       "run");
        return;
    }
    Mount mount;
    mount.kind = unmanaged;
    mount.name = named->first;
    mount.source = normalized(named->second.directory);
    mount.target = wanted.relative_mount_path;
    mount.scope = list.scope;
    mount.read_only = named->second.read_only;
    mount.mount_seconds = list.planning.site.mount_timeout;
    list.planning.plan.mounts.push_back(std::move(mount));
}

void plan_list(const VolumeList& list) {
    plan_storage_mounts(list);
    for (std::size_t i = 0; i < list.volumes.file_servers.size(); ++i)
        add_file_server(list, list.volumes.file_servers[i], i);
    for (std::size_t i = 0; i < list.volumes.unmanaged_file_systems.size(); ++i)
        add_unmanaged(list, list.volumes.unmanaged_file_systems[i], i);
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
                          fmt::format("cluster \"{}\": {} {}: {}",
                                      planning.submission.cluster->name, kind, index + 1, message),
                          std::move(hint));
}

bool apply_mount_options(const VolumeList& list, std::size_t index,
                         const std::optional<std::string>& options, Mount& mount) {
    const MountOptions read = read_mount_options(options);
    if (!read.unknown.empty()) {
        list.fault(Finding::bad_mount_option, mount.kind, index, "mountOptions",
                   fmt::format("\"mountOptions\" has what is not known here: {}",
                               fmt::join(read.unknown, ", ")),
                   std::string(mount_options_help()));
        return false;
    }
    mount.read_only = mount.read_only || read.read_only;
    mount.no_execute = mount.no_execute || read.no_execute;
    if (!read.ignored.empty())
        list.notice(
            fmt::format("mountOptions of {}: {} have no effect, since the site decides how "
                        "it is mounted",
                        mount.name, fmt::join(read.ignored, ", ")));
    return true;
}

void plan_mounts(Planning& planning) {
    report_placeholders(planning);
    if (planning.submission.cluster)
        plan_list({planning, planning.submission.cluster->mount_volumes, MountScope::cluster});
    plan_list({planning, planning.spec.mount_volumes, MountScope::job});
}

}  // namespace batchai::plan

// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "admin/checks.hpp"
#include "admin/plugin_object.hpp"
#include "base/text.hpp"
#include "slurm/release.hpp"
#include "spank/protocol.h"

namespace batchai::admin {

namespace {

using slurm::Release;
using slurm::release_of;

// What root may do says nothing about users, and jobs run as users.
Judgement only_for_users() {
    return {.severity = Severity::unknown,
            .found = "cannot be tried as root",
            .remedy = "run the check as an ordinary user"};
}

// Returns what to do about a line that is not there.
std::string remedy_for_line(const HostFacts& facts, std::string usual) {
    if (!facts.configless) return usual;
    return "put the line of share/batchai/plugstack.conf into plugstack.conf on the controller, "
           "which does not send the files that plugstack.conf includes; PlugStackConfig in "
           "slurm.conf must not name a directory";
}

Judgement plugin_line(const HostFacts& facts) {
    if (!facts.plugstack && facts.plugstack_path.empty())
        return {.severity = Severity::unknown, .found = facts.plugstack.error().text()};
    if (!facts.plugstack)
        return {.severity = Severity::error,
                .found = facts.plugstack.error().text(),
                .remedy = remedy_for_line(
                    facts, fmt::format(
                               "write {} with the line of share/batchai/plugstack.conf, or with an "
                               "include of the directory where that file is linked",
                               facts.plugstack_path))};
    const auto ours = lines_of_batchai(*facts.plugstack);
    if (ours.empty())
        return {.severity = Severity::error,
                .found = fmt::format("no line of {} loads batchai.so",
                                     fmt::join(facts.plugstack->files, ", ")),
                .remedy = remedy_for_line(
                    facts,
                    "copy or link share/batchai/plugstack.conf, of packages "
                    "/usr/share/batchai/slurm-VERSION/plugstack.conf, into plugstack.conf.d, and "
                    "let plugstack.conf include that directory")};
    if (ours.size() > 1) {
        std::vector<std::string> places;
        places.reserve(ours.size());
        for (const PlugstackLine& line : ours)
            places.push_back(line.place);
        return {.severity = Severity::error,
                .found = fmt::format("batchai.so is loaded {} times: {}", ours.size(),
                                     fmt::join(places, ", ")),
                .remedy = "remove all lines but one"};
    }
    if (ours.front().required)
        return {.severity = Severity::warning,
                .found = fmt::format("{}: the plugin is required, so Slurm refuses all jobs if it "
                                     "cannot be loaded",
                                     ours.front().place),
                .remedy =
                    "write optional; a step that asked for its mounts never runs without "
                    "them"};
    return {.found = fmt::format("{}: optional {}", ours.front().place, ours.front().plugin)};
}

Judgement plugin_arguments(const HostFacts& facts) {
    if (!facts.plugstack)
        return {.severity = Severity::unknown, .found = facts.plugstack.error().text()};
    std::vector<std::string_view> known;
    for (const std::string_view argument : base::split(BATCHAI_PLUGSTACK_ARGUMENTS, ' '))
        known.push_back(argument.substr(0, argument.find('=')));
    for (const PlugstackLine& line : lines_of_batchai(*facts.plugstack)) {
        for (const std::string& argument : line.arguments) {
            const std::string_view key = std::string_view(argument).substr(0, argument.find('='));
            if (std::find(known.begin(), known.end(), key) != known.end()) continue;
            const auto meant = base::nearest(key, known);
            return {.severity = Severity::warning,
                    .found = fmt::format("{}: the plugin does not know the argument \"{}\" and "
                                         "ignores it",
                                         line.place, argument),
                    .remedy = meant ? fmt::format("did you mean \"{}\"?", *meant)
                                    : "the arguments are " BATCHAI_PLUGSTACK_ARGUMENTS};
        }
    }
    if (!facts.plugstack->faults.empty())
        return {.severity = Severity::warning,
                .found = fmt::format("{}", fmt::join(facts.plugstack->faults, "; ")),
                .remedy = "mend these lines: Slurm may load no plugin at all"};
    return {.found = "all arguments are known"};
}

Judgement plugin_file(const HostFacts& facts) {
    for (const PluginFile& plugin : facts.plugins) {
        if (!plugin.changeable) continue;
        return {.severity = Severity::error,
                .found = fmt::format("{}: {}", plugin.path, *plugin.changeable),
                .remedy =
                    "root runs the plugin: only root may be able to change it or a "
                    "directory above it"};
    }
    if (!facts.changeable_configuration.empty())
        return {.severity = Severity::warning,
                .found = fmt::format("{}", fmt::join(facts.changeable_configuration, "; ")),
                .remedy =
                    "root loads what these files name: only root, or SlurmUser, may be able to "
                    "change them or a directory above them"};
    if (facts.plugins.empty())
        return {.severity = Severity::unknown,
                .found = "no line of plugstack.conf names the plugin by its path"};
    return {.found = fmt::format("only root can change {}, and what names it",
                                 facts.plugins.front().path)};
}

Judgement plugin_abi(const HostFacts& facts) {
    if (facts.plugins.empty())
        return {.severity = Severity::unknown,
                .found = "no line of plugstack.conf names the plugin by its path"};
    const PluginFile& plugin = facts.plugins.front();
    if (!plugin.built_for)
        return {.severity = Severity::error,
                .found = plugin.built_for.error().text(),
                .remedy = "install batchai on this host again"};
    if (!facts.slurm_version)
        return {.severity = Severity::unknown, .found = facts.slurm_version.error().text()};
    const std::string built = slurm_version_text(*plugin.built_for);
    // Slurm compares all but the last part.
    if (facts.slurm_version->starts_with(built.substr(0, built.rfind('.') + 1)))
        return {.found = fmt::format("built for Slurm {}", built)};
    return {.severity = Severity::error,
            .found = fmt::format("{} is built for Slurm {}, but this host has {}", plugin.path,
                                 built, *facts.slurm_version),
            .remedy = "build batchai with the headers of this Slurm, and install it again"};
}

Judgement plugin_epilog(const HostFacts& facts) {
    if (!facts.newer_than_slurmd)
        return {.severity = Severity::unknown, .found = facts.newer_than_slurmd.error().text()};
    // From this release on, `scontrol reconfigure` makes slurmd look again, but leaves its start.
    constexpr Release looks_again{23, 11, 0};
    const auto release =
        facts.slurm_version ? release_of(*facts.slurm_version) : std::optional<Release>();
    const bool reconfigure_suffices = release && *release >= looks_again;
    if (facts.newer_than_slurmd->empty() && facts.fetched_again && !reconfigure_suffices)
        return {.severity = Severity::info,
                .found =
                    "slurmd has fetched plugstack.conf again since it started; if the plugin's "
                    "line is newer than slurmd, \"systemctl restart slurmd\" makes it look at it"};
    if (facts.newer_than_slurmd->empty())
        return {.found = "slurmd has started since then, or does not run here"};
    if (reconfigure_suffices)
        return {.severity = Severity::info,
                .found = fmt::format("{} is newer than the running slurmd; \"scontrol "
                                     "reconfigure\" makes slurmd look at it",
                                     *facts.newer_than_slurmd)};
    return {.severity = Severity::warning,
            .found = fmt::format("{} is newer than the running slurmd, which may not call the "
                                 "epilog that removes what jobs leave",
                                 *facts.newer_than_slurmd),
            .remedy = "systemctl restart slurmd (running jobs go on)"};
}

Judgement node_program(const HostFacts& facts) {
    if (facts.node_program) return {.found = "batchai-node is installed"};
    return {.severity = Severity::error,
            .found = facts.node_program.error().text(),
            .remedy = "install batchai on this host, under the same path as elsewhere"};
}

Judgement site_file(const HostFacts& facts) {
    if (!facts.site)
        return {.severity = Severity::error,
                .found = facts.site.error().text(),
                .remedy = "mend the file; docs/site.md and site.lua.example have all keys"};
    if (!facts.site_file)
        return {.severity = Severity::info, .found = "there is no site.lua: the defaults apply"};
    if (facts.site_file->changeable)
        return {.severity = Severity::error,
                .found = fmt::format("{}: {}", facts.site_file->path, *facts.site_file->changeable),
                .remedy = "only root may be able to change the file or a directory above it"};
    return {.found = fmt::format("{} can be read", facts.site_file->path)};
}

Judgement site_directories(const HostFacts& facts) {
    if (!facts.site) return {.severity = Severity::unknown, .found = facts.site.error().text()};
    if (facts.missing_directories.empty() && facts.unanswered_directories.empty())
        return {.found = "the directories that site.lua names are there"};
    if (facts.missing_directories.empty())
        return {.severity = Severity::unknown,
                .found = fmt::format("{}", fmt::join(facts.unanswered_directories, ", ")),
                .remedy = "run the check as a user who may look there, and see to the file server"};
    return {
        .severity = Severity::error,
        .found = fmt::format("not on this host: {}", fmt::join(facts.missing_directories, ", ")),
        .remedy = "mount them on all hosts, or take them out of site.lua"};
}

Judgement user_namespaces(const HostFacts& facts) {
    if (facts.user == 0) return only_for_users();
    if (facts.namespaces) return {.found = "an ordinary user can make user and mount namespaces"};
    std::vector<std::string> limits;
    for (const auto& [name, value] : facts.limits_of_namespaces)
        limits.push_back(fmt::format("{}={}", name, value));
    return {
        .severity = Severity::error,
        .found = fmt::format("{} ({})", facts.namespaces.error().text(), fmt::join(limits, ", ")),
        .remedy =
            "allow them: sysctl user.max_user_namespaces=65536, "
            "kernel.unprivileged_userns_clone=1 on Debian, and on Ubuntu an AppArmor "
            "profile for batchai and batchai-node, or "
            "kernel.apparmor_restrict_unprivileged_userns=0"};
}

Judgement overlay(const HostFacts& facts) {
    if (facts.user == 0) return only_for_users();
    if (facts.overlay) return {.found = "overlay can be mounted in a user namespace"};
    if (!facts.namespaces) return {.severity = Severity::unknown, .found = "see the check ns.user"};
    const bool by_fuse = facts.programs.contains("fuse-overlayfs") && facts.fuse.has_value();
    return {.severity = by_fuse ? Severity::warning : Severity::error,
            .found = fmt::format("the kernel's overlay cannot be mounted: {}{}",
                                 facts.overlay.error().text(),
                                 by_fuse ? ". Containers use fuse-overlayfs, which is slower" : ""),
            .remedy = by_fuse ? "use Linux 5.12 or newer"
                              : "use Linux 5.12 or newer, or install fuse-overlayfs"};
}

Judgement fuse(const HostFacts& facts) {
    if (facts.user == 0) return only_for_users();
    if (facts.fuse) return {.found = "/dev/fuse can be opened"};
    return {.severity = Severity::error,
            .found = facts.fuse.error().text(),
            .remedy = "load the module fuse, and give /dev/fuse the mode 0666"};
}

// Judges whether the programs are there. `without` completes "Without them …".
Judgement programs(const HostFacts& facts, std::initializer_list<std::string_view> wanted,
                   std::string_view without, std::string_view packages) {
    std::vector<std::string_view> missing;
    for (const std::string_view program : wanted) {
        if (!facts.programs.contains(std::string(program))) missing.push_back(program);
    }
    if (missing.empty()) return {.found = fmt::format("{} on PATH", fmt::join(wanted, ", "))};
    return {.severity = Severity::warning,
            .found = fmt::format("not on PATH: {}; {}", fmt::join(missing, ", "), without),
            .remedy = fmt::format("install the packages {}", packages)};
}

Judgement image_programs(const HostFacts& facts) {
    return programs(facts, {"skopeo", "umoci", "mksquashfs"}, "no image can be imported here",
                    "skopeo, umoci, squashfs-tools");
}

Judgement container_programs(const HostFacts& facts) {
    return programs(facts, {"squashfuse_ll"}, "no container can be started here", "squashfuse");
}

Judgement volume_programs(const HostFacts& facts) {
    if (!facts.site) return {.severity = Severity::unknown, .found = facts.site.error().text()};
    const bool wanted =
        facts.site->other_accounts_in_azure ||
        std::any_of(facts.site->storage_accounts.begin(), facts.site->storage_accounts.end(),
                    [](const auto& entry) {
                        return entry.second.file_share_remote || entry.second.blob_container_remote;
                    });
    if (!wanted) return {.found = "site.lua has no storage that rclone opens"};
    return programs(facts, {"rclone"}, "remote storage cannot be mounted here", "rclone");
}

Judgement subordinate_ids(const HostFacts& facts) {
    if (!facts.has_subordinate_ids)
        return {.severity = Severity::info,
                .found =
                    "this user has no subordinate ids: containers have one user id, and "
                    "package managers in them see each change of an owner succeed without "
                    "effect"};
    return programs(facts, {"newuidmap", "newgidmap"}, "subordinate ids cannot be used", "uidmap");
}

Judgement pmix_library(const HostFacts& facts) {
    if (!facts.pmix_plugin)
        return {.severity = Severity::unknown, .found = facts.pmix_plugin.error().text()};
    const PmixPlugin& plugin = *facts.pmix_plugin;
    if (plugin.path.empty()) return {.found = "site.lua asks for another PMI than PMIx"};
    if (plugin.library.empty())
        return {.found = fmt::format("{} loads no library by name", plugin.path)};
    if (plugin.loadable) return {.found = fmt::format("{} finds {}", plugin.path, plugin.library)};
    return {
        .severity = Severity::error,
        .found =
            fmt::format("{} loads {}, which this host does not have", plugin.path, plugin.library),
        .remedy =
            "install PMIx with a library of this name; in Debian, libpmix.so is in libpmix-dev"};
}

Judgement node_directory(const HostFacts& facts) {
    const DirectoryFacts& directory = facts.node_directory;
    constexpr unsigned sticky = 01000;
    constexpr unsigned others_may_write = 0022;
    const auto wrong = [&](std::string what, std::string remedy) {
        return Judgement{.severity = Severity::error,
                         .found = fmt::format("{} {}", directory.path, what),
                         .remedy = std::move(remedy)};
    };
    if (!directory.fault.empty())
        return wrong(fmt::format("cannot be used: {}", directory.fault),
                     "make it on every node (mode 1777), or change node_directory in site.lua");
    if (directory.is_link)
        return wrong("is a symbolic link", "name its target as node_directory in site.lua");
    if (directory.owner != 0)
        return wrong(fmt::format("belongs to user {}", directory.owner), "chown root");
    if ((directory.mode & others_may_write) != 0 && (directory.mode & sticky) == 0)
        return wrong("lets users remove what belongs to others", "chmod 1777");
    if (facts.user == 0) return only_for_users();
    if (!directory.can_write) return wrong("cannot be written to by users", "chmod 1777");
    return {.found = fmt::format("{} can be used", directory.path)};
}

std::string gibibytes(std::int64_t bytes) {
    return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(1UL << 30U));
}

Judgement node_space(const HostFacts& facts) {
    const DirectoryFacts& directory = facts.node_directory;
    constexpr std::int64_t least_bytes = 10LL << 30U;
    constexpr std::int64_t least_files = 100'000;
    if (!directory.fault.empty())
        return {.severity = Severity::unknown, .found = "see the check dir.node"};
    if (directory.in_memory)
        return {.severity = Severity::warning,
                .found = fmt::format("{} is in memory ({} free): what jobs write to it counts as "
                                     "their memory",
                                     directory.path, gibibytes(directory.free_bytes)),
                .remedy = "set node_directory in site.lua to a directory on a disk"};
    const bool few_files = directory.free_files >= 0 && directory.free_files < least_files;
    if (directory.free_bytes < least_bytes || few_files)
        return {.severity = Severity::warning,
                .found = fmt::format("{} has {} and {} files free", directory.path,
                                     gibibytes(directory.free_bytes), directory.free_files),
                .remedy = "make room, or set node_directory in site.lua to another disk"};
    return {.found = fmt::format("{} has enough room", directory.path)};
}

Judgement home(const HostFacts& facts) {
    const DirectoryFacts& directory = facts.home;
    constexpr std::int64_t least_bytes = 1LL << 30U;
    if (!directory.fault.empty())
        return {.severity = Severity::error,
                .found = fmt::format("{}: {}", directory.path, directory.fault),
                .remedy = "the home directories must be there on every host, or BATCHAI_HOME set"};
    if (!directory.can_write)
        return {.severity = facts.user == 0 ? Severity::info : Severity::error,
                .found = fmt::format("{} cannot be written to by this user", directory.path),
                .remedy = "records of jobs are kept there; BATCHAI_HOME moves them"};
    if (directory.free_bytes < least_bytes)
        return {
            .severity = Severity::warning,
            .found = fmt::format("{} has {} free", directory.path, gibibytes(directory.free_bytes)),
            .remedy = "make room: records and logs of jobs are kept there"};
    return {.found = fmt::format("{} can be written to", directory.path)};
}

Judgement address(const HostFacts& facts) {
    if (facts.address != facts.host) return {.found = "the name of the host has an address"};
    return {.severity = Severity::warning,
            .found = fmt::format("the name {} has no address here, or only that of the loopback "
                                 "interface",
                                 facts.host),
            .remedy =
                "give the name the host's address in DNS or /etc/hosts; a line with 127.0.1.1 "
                "is Debian's default"};
}

Judgement locked_memory(const HostFacts& facts) {
    if (!facts.has_infiniband) return {.found = "there is no InfiniBand here"};
    if (facts.lockable_bytes == std::numeric_limits<std::uint64_t>::max())
        return {.found = "processes may lock all memory"};
    return {.severity = Severity::warning,
            .found = fmt::format("processes may lock {} KiB of memory, but InfiniBand needs to "
                                 "lock what it sends",
                                 facts.lockable_bytes >> 10U),
            .remedy =
                "LimitMEMLOCK=infinity for slurmd, and PropagateResourceLimitsExcept=MEMLOCK "
                "in slurm.conf"};
}

Judgement gpu_cdi(const HostFacts& facts) {
    if (!facts.has_nvidia) return {.found = "there is no NVIDIA driver here"};
    if (facts.has_cdi_file) return {.found = "there is a CDI file of NVIDIA's"};
    return {.severity = Severity::warning,
            .found = "there is no CDI file of NVIDIA's, so containers do not get GPUs",
            .remedy = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"};
}

Judgement control_groups(const HostFacts& facts) {
    return {.severity = Severity::info,
            .found = fmt::format("control groups of version {}, Linux {}", facts.cgroup_version,
                                 facts.kernel)};
}

constexpr std::array<Check<HostFacts>, 23> host_table{{
    {"plugin.line", "the line of plugstack.conf that loads the plugin",
     "Slurm loads batchai.so only if exactly one line says so. \"required\" would make Slurm "
     "refuse "
     "every job if the plugin cannot be loaded.",
     plugin_line},
    {"plugin.arguments", "the plugin's arguments in plugstack.conf",
     "The plugin ignores what it does not know, and Slurm may load nothing if a line is wrong.",
     plugin_arguments},
    {"plugin.file", "who can change the plugin and the files that name it",
     "Root runs it. Whoever can change it, plugstack.conf, slurm.conf, or a directory above them, "
     "becomes root.",
     plugin_file},
    {"plugin.abi", "the version of Slurm that the plugin was built for",
     "Slurm does not load a plugin of another minor version. Since 25.11 it does not say so.",
     plugin_abi},
    {"plugin.epilog", "whether slurmd is newer than the plugin",
     "Slurm 22.05 to 23.02 look for epilog hooks only when slurmd starts. Without the epilog, what "
     "jobs leave on a node stays there.",
     plugin_epilog},
    {"pkg.node-program", "whether batchai-node is installed",
     "It makes the mounts and containers of a step. Without it, steps end with a message.",
     node_program},
    {"mpi.library", "whether Slurm's PMIx plugin finds the library that it loads",
     "\"srun --mpi=list\" has pmix if the plugin is there. Without the library, every step ends "
     "with "
     "\"can not load PMIx library\".",
     pmix_library},
    {"site.file", "whether site.lua can be read, and who can change it",
     "It decides where the jobs of all users read and write. No job can be submitted while it has "
     "a fault.",
     site_file},
    {"site.directories", "whether the directories in site.lua are there",
     "A job that uses one of them fails where it is missing.", site_directories},
    {"ns.user", "whether users can make user namespaces",
     "All mounts of a job are made in one, because nothing is mounted as root.", user_namespaces},
    {"ns.overlay", "whether overlay can be mounted in a user namespace",
     "It makes an image writable for the job.", overlay},
    {"fuse.device", "whether users can open /dev/fuse",
     "Images and remote storage are mounted through it.", fuse},
    {"tools.image", "the programs that import images",
     "They are needed on hosts where jobs with containers are submitted, and on their first nodes.",
     image_programs},
    {"tools.container", "the program that mounts images",
     "It is needed on all nodes that run jobs with containers.", container_programs},
    {"tools.volumes", "the program that mounts remote storage",
     "It is needed on all nodes if site.lua has remote storage.", volume_programs},
    {"ids.subordinate", "the user's subordinate ids",
     "With them, a container can have more than one user.", subordinate_ids},
    {"dir.node", "node_directory of site.lua",
     "The directories of jobs are made there. Nobody but their owner may be able to replace them.",
     node_directory},
    {"dir.node-space", "room in node_directory",
     "The writable layers of containers and the temporary directories of jobs are there.",
     node_space},
    {"dir.home", "the directory of this user's records",
     "Every node must see it under the same path.", home},
    {"net.address", "the host's address",
     "The ranks of a job find the first one by the address of its node.", address},
    {"net.memlock", "how much memory may be locked",
     "InfiniBand can only send from memory that cannot be swapped out.", locked_memory},
    {"gpu.cdi", "whether containers can have GPUs",
     "A CDI file says which devices and libraries of the node a container needs for a GPU.",
     gpu_cdi},
    {"host.kernel", "the kernel", "This is for the record.", control_groups},
}};

}  // namespace

std::span<const Check<HostFacts>> host_checks() {
    return host_table;
}

}  // namespace batchai::admin

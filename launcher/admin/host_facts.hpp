// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/plugstack.hpp"
#include "admin/pmix_plugin.hpp"
#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "site/site.hpp"

namespace batchai::admin {

struct DirectoryFacts {
    std::string path;
    std::string fault;  // why it cannot be looked at; the rest is then not set
    bool is_link = false;
    unsigned owner = 0;
    unsigned mode = 0;  // permission bits
    bool in_memory = false;
    std::int64_t free_bytes = 0;
    std::int64_t free_files = -1;  // -1: the file system does not count them
    bool can_write = false;        // this user may make files in it
};

// A plugin that a line of plugstack.conf names by its path.
struct PluginFile {
    std::string path;
    std::optional<std::string> changeable;  // who else could change it
    base::Result<std::uint32_t> built_for;  // the number of a version of Slurm
};

struct SiteFile {
    std::string path;
    std::optional<std::string> changeable;
    std::string digest;
};

// What the checks of one host look at, as the user who runs this process sees it.
struct HostFacts {
    std::string host;
    std::string kernel;  // "6.1.0-18-amd64"
    unsigned user = 0;
    base::Result<std::string> slurm_version;

    base::Result<Plugstack> plugstack;
    std::string plugstack_path;
    // plugstack.conf is a copy that slurmd has fetched from the controller.
    bool configless = false;
    // It has fetched it again since it started.
    bool fetched_again = false;
    std::vector<PluginFile> plugins;
    // Each of slurm.conf and the files of plugstack.conf that others could change, and who.
    std::vector<std::string> changeable_configuration;
    // A file of plugstack.conf or a plugin that was changed or put in its place after the running
    // slurmd has started; "" if there is none, or no slurmd on this host. A fetched copy does not
    // count. An error if processes of others cannot be seen.
    base::Result<std::string> newer_than_slurmd;
    base::Result<PmixPlugin> pmix_plugin;  // without a path if site.lua asks for another PMI
    base::Result<void> node_program;       // whether batchai-node can be run

    base::Result<site::Site> site;
    std::optional<SiteFile> site_file;                // absent: the defaults apply
    std::vector<std::string> missing_directories;     // of site.lua: "KEY: PATH"
    std::vector<std::string> unanswered_directories;  // "KEY: PATH: WHY"

    base::Result<void> namespaces;  // of users and mounts, as an ordinary user
    base::Result<void> overlay;     // of the kernel, in such namespaces
    base::Result<void> fuse;        // whether /dev/fuse can be opened
    // Settings of the kernel that limit user namespaces, by name.
    std::vector<std::pair<std::string, std::string>> limits_of_namespaces;
    std::set<std::string> programs;  // of those that host_checks() needs, those on PATH
    bool has_subordinate_ids = false;

    DirectoryFacts node_directory;
    DirectoryFacts home;  // $BATCHAI_HOME, or the directory in which it would be made
    std::string address;  // at which other hosts find this one; its name if it has none
    int cgroup_version = 0;
    bool has_infiniband = false;
    std::uint64_t lockable_bytes = 0;  // memory that this process may lock; the maximum: no limit
    bool has_nvidia = false;
    bool has_cdi_file = false;
    base::Time time;
};

// The programs that the checks look for on PATH.
inline constexpr std::array<std::string_view, 8> needed_programs{
    "skopeo",         "umoci",  "mksquashfs", "squashfuse_ll",
    "fuse-overlayfs", "rclone", "newuidmap",  "newgidmap"};

// Looks at this host. Makes namespaces and mounts in a child process, which leave nothing behind.
// This process must not have several threads.
[[nodiscard]] HostFacts look_at_host();

}  // namespace batchai::admin

// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/host_facts.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <pwd.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admin/plugin_object.hpp"
#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/lock.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "node/namespace/user_namespace.hpp"
#include "node/node_name.hpp"
#include "node/slurm_conf.hpp"
#include "slurm/client.hpp"
#include "slurm/node_addresses.hpp"
#include "store/store.hpp"

namespace batchai::admin {

namespace {

namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds probe_deadline{10};
// For all directories of site.lua together: many of them may be on one dead server, and a check on
// a node must end before Slurm ends its step.
constexpr std::chrono::seconds directories_deadline{20};

// Does the work in a child process and returns the error number with which it ends; 0 is success.
// A child that waits for a dead file server cannot be ended, so it is not waited for.
base::Result<void> tried(const std::string& what, const std::function<int()>& work,
                         Clock::duration longest = probe_deadline) {
    auto child = TRY(base::Child::fork(work, true));
    const auto status = child.ended_by(Clock::now() + longest);
    if (!status) {
        child.signal(SIGKILL);
        child.release();
        const auto seconds = std::chrono::ceil<std::chrono::seconds>(longest);
        return base::fail(fmt::format("does not answer within {} s", seconds.count()), what);
    }
    if (!WIFEXITED(*status)) return base::fail("is killed", what);
    const int code = WEXITSTATUS(*status);
    if (code == 0) return {};
    return base::fail(
        std::strerror(code), what, {},
        code == ENOENT || code == ENOTDIR ? base::ExitCode::not_found : base::ExitCode::failed);
}

// Looks whether there is a directory at the path. Its file server may be dead.
base::Result<void> find_directory(const std::string& path,
                                  Clock::duration longest = probe_deadline) {
    const auto look = [&] {
        struct stat status {};
        if (stat(path.c_str(), &status) != 0) return errno;
        return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
    };
    return tried(path, look, longest);
}

// The number of a failure that is not one of the system's.
int number_of_failure() {
    return errno == 0 ? EIO : errno;
}

int try_namespaces() {
    errno = 0;
    return node::enter_private_namespaces() ? 0 : number_of_failure();
}

// Tries what a container does: its changes are below node_directory. The directory is removed by
// the child, which in its namespace may remove what overlay has made in it.
int try_overlay(const std::string& node_directory) {
    if (const int failed = try_namespaces(); failed != 0) return failed;
    std::string place = node_directory + "/batchai-check-XXXXXX";
    if (mkdtemp(place.data()) == nullptr) return number_of_failure();
    const bool mounted = chdir(place.c_str()) == 0 && mkdir("lower", 0700) == 0 &&
                         mkdir("upper", 0700) == 0 && mkdir("work", 0700) == 0 &&
                         mkdir("root", 0700) == 0 &&
                         mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV,
                               "lowerdir=lower,upperdir=upper,workdir=work,userxattr") == 0;
    const int failed = mounted ? 0 : number_of_failure();
    if (mounted && umount2("root", MNT_DETACH) != 0) return number_of_failure();
    const bool removed = chdir("/") == 0 && base::remove_tree(place).has_value();
    return failed == 0 && !removed ? EBUSY : failed;
}

base::Result<void> try_fuse() {
    const base::FileDescriptor device(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (device.valid()) return {};
    return base::system_error("open", "/dev/fuse");
}

std::vector<std::pair<std::string, std::string>> namespace_limits() {
    constexpr std::array<std::string_view, 4> names{
        "user/max_user_namespaces", "user/max_mnt_namespaces", "kernel/unprivileged_userns_clone",
        "kernel/apparmor_restrict_unprivileged_userns"};
    std::vector<std::pair<std::string, std::string>> found;
    for (const std::string_view name : names) {
        const auto text = base::read_file(fmt::format("/proc/sys/{}", name));
        if (text) found.emplace_back(name, base::trim(*text));
    }
    return found;
}

std::set<std::string> programs_on_path() {
    std::set<std::string> found;
    const std::string path = base::variable("PATH").value_or("");
    for (const std::string_view directory : base::split(path, ':')) {
        for (const std::string_view program : needed_programs) {
            if (access(fmt::format("{}/{}", directory, program).c_str(), X_OK) == 0)
                found.emplace(program);
        }
    }
    return found;
}

DirectoryFacts look_at_directory(const std::string& path) {
    DirectoryFacts facts{.path = path};
    if (const auto found = find_directory(path); !found) {
        facts.fault = found.error().what;
        return facts;
    }
    struct stat status {};
    struct statfs system {};
    if (lstat(path.c_str(), &status) != 0 || statfs(path.c_str(), &system) != 0) {
        facts.fault = std::strerror(errno);
        return facts;
    }
    facts.is_link = S_ISLNK(status.st_mode);
    if (facts.is_link && stat(path.c_str(), &status) != 0) facts.fault = std::strerror(errno);
    if (facts.fault.empty() && !S_ISDIR(status.st_mode)) facts.fault = std::strerror(ENOTDIR);
    facts.owner = status.st_uid;
    facts.mode = status.st_mode & 07777U;
    facts.in_memory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
    facts.free_bytes = static_cast<std::int64_t>(system.f_bavail) * system.f_bsize;
    if (system.f_files > 0) facts.free_files = static_cast<std::int64_t>(system.f_ffree);
    facts.can_write = access(path.c_str(), W_OK | X_OK) == 0;
    return facts;
}

// Returns the directory itself, or the nearest one above it that exists.
std::string existing(fs::path path) {
    std::error_code error;
    while (!fs::exists(path, error) && path.has_relative_path())
        path = path.parent_path();
    return path.string();
}

DirectoryFacts look_at_home() {
    const auto store = store::Store::open_default();
    if (!store) return {.path = "~/.batchai", .fault = store.error().text()};
    // The records' directory is made by the first command that writes a record.
    const auto found = find_directory(store->home().string());
    if (!found && found.error().exit_code != base::ExitCode::not_found)
        return {.path = store->home().string(), .fault = found.error().what};
    return look_at_directory(existing(store->home()));
}

// Calls `look` for each directory that site.lua names, with its key. What stands for a name of a
// job or user is left out, because it cannot be looked for.
void each_directory(
    const site::Site& site,
    const std::function<void(const std::string& key, const std::string& path)>& look) {
    const auto with = [&](const std::string& key, const std::string& path) {
        const fs::path known = path.substr(0, path.find('%'));
        if (!path.empty()) look(key, known.string() == path ? path : known.parent_path().string());
    };
    for (const auto& [name, account] : site.storage_accounts) {
        with(fmt::format("storage_accounts.{}.file_share_directory", name),
             account.file_share_directory);
        with(fmt::format("storage_accounts.{}.blob_container_directory", name),
             account.blob_container_directory);
    }
    for (const auto& [name, server] : site.file_servers)
        with(fmt::format("file_servers.{}.directory", name), server.directory);
    for (const auto& [name, mount] : site.named_mounts)
        with(fmt::format("named_mounts.{}.directory", name), mount.directory);
    with("image_directory", fs::path(site.image_directory).parent_path().string());
    with("shared_image_directory", site.shared_image_directory);
}

void look_for_directories(const site::Site& site, HostFacts& facts) {
    const auto end = Clock::now() + directories_deadline;
    std::map<std::string, base::Result<void>> answers;
    each_directory(site, [&](const std::string& key, const std::string& path) {
        const auto left = std::min<Clock::duration>(end - Clock::now(), probe_deadline);
        if (!answers.contains(path))
            answers.emplace(path, left > Clock::duration::zero()
                                      ? find_directory(path, left)
                                      : base::fail("was not looked at, because others did not "
                                                   "answer in time",
                                                   path));
        const auto& found = answers.at(path);
        if (found) return;
        if (found.error().exit_code == base::ExitCode::not_found)
            facts.missing_directories.push_back(fmt::format("{}: {}", key, path));
        else
            facts.unanswered_directories.push_back(
                fmt::format("{}: {}", key, found.error().text()));
    });
}

std::optional<SiteFile> look_at_site_file(const base::Result<site::Site>& site) {
    // A file that cannot be read as site.lua is still the file of this site.
    const std::string path = site ? site->source : site.error().where;
    const auto text = base::read_file(path);
    if (!text) return std::nullopt;
    return SiteFile{.path = path,
                    .changeable = base::who_else_can_change(path),
                    .digest = base::sha256_hex(*text)};
}

// Returns the time at which a process started, in seconds since 1970.
std::optional<std::time_t> start_of(pid_t process) {
    const auto ticks = base::number_in<std::int64_t>(base::start_time(process));
    timespec since_boot{};
    const long per_second = sysconf(_SC_CLK_TCK);
    if (!ticks || per_second <= 0 || clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0)
        return std::nullopt;
    return std::time(nullptr) - since_boot.tv_sec + *ticks / per_second;
}

// Returns nothing if no slurmd runs here. Only a process of root is taken for it. Where each node
// of the host has one, the oldest counts.
std::optional<std::time_t> start_of_slurmd() {
    std::optional<std::time_t> oldest;
    std::error_code error;
    for (const auto& entry : base::entries_of("/proc", error)) {
        const auto process = base::number_in<pid_t>(entry.path().filename().string());
        const auto name = process ? base::read_file(entry.path() / "comm") : std::string();
        struct stat status {};
        // Debian's slurmd may call itself slurmd-wlm.
        if (!name || (base::trim(*name) != "slurmd" && !name->starts_with("slurmd-")) ||
            stat(entry.path().c_str(), &status) != 0 || status.st_uid != 0)
            continue;
        const auto start = start_of(*process);
        if (start && (!oldest || *start < *oldest)) oldest = start;
    }
    return oldest;
}

// How long after its start slurmd may have to wait for the controller's files.
constexpr std::time_t seconds_until_fetched = 10;

// Returns when the file was last changed, or put where it is, itself or as the target of a link.
// Package managers keep the time at which a file was built, so only the time of the inode counts.
std::time_t placed(const std::string& file) {
    struct stat link {};
    struct stat target {};
    if (lstat(file.c_str(), &link) != 0 || stat(file.c_str(), &target) != 0) return 0;
    return std::max(link.st_ctim.tv_sec, target.st_ctim.tv_sec);
}

struct SinceStart {
    std::string newer{};         // HostFacts::newer_than_slurmd
    bool fetched_again = false;  // HostFacts::fetched_again
};
base::Result<SinceStart> since_start_of_slurmd(const HostFacts& facts) {
    SinceStart out;
    std::error_code error;
    if (!fs::exists("/proc/1/comm", error))
        return base::fail("this user cannot see the processes of root", "/proc");
    const auto started = start_of_slurmd();
    if (!started || !facts.plugstack) return out;
    std::vector<std::string> files;
    for (const std::string& file : facts.plugstack->files) {
        if (!node::is_fetched(file))
            files.push_back(file);
        else if (placed(file) > *started + seconds_until_fetched)
            out.fetched_again = true;
    }
    for (const PluginFile& plugin : facts.plugins)
        files.push_back(plugin.path);
    const auto newer = std::find_if(files.begin(), files.end(), [&](const std::string& file) {
        return placed(file) > *started;
    });
    if (newer != files.end()) out.newer = *newer;
    return out;
}

void look_at_plugin(HostFacts& facts) {
    const auto conf = node::read_slurm_conf(base::variable("SLURM_CONF").value_or(""));
    facts.plugstack_path = plugstack_path(conf);
    facts.plugstack = base::fail("this host has no slurm.conf");
    if (!facts.plugstack_path.empty()) facts.plugstack = read_plugstack(facts.plugstack_path);
    facts.newer_than_slurmd = std::string();
    const auto look = [&](const std::string& path) {
        if (const auto who = base::who_else_can_change(path))
            facts.changeable_configuration.push_back(fmt::format("{}: {}", path, *who));
    };
    if (!conf.path.empty()) look(conf.path);
    facts.configless = !conf.path.empty() && node::is_fetched(conf.path);
    if (!facts.plugstack) return;
    for (const std::string& file : facts.plugstack->files)
        look(file);
    for (const PlugstackLine& line : lines_of_batchai(*facts.plugstack)) {
        if (!line.plugin.starts_with('/')) continue;
        facts.plugins.push_back({.path = line.plugin,
                                 .changeable = base::who_else_can_change(line.plugin),
                                 .built_for = slurm_version_of_plugin(line.plugin)});
    }
    const auto since = since_start_of_slurmd(facts);
    facts.fetched_again = since && since->fetched_again;
    facts.newer_than_slurmd = since.map([](const SinceStart& found) { return found.newer; });
}

bool has_line_for(const std::string& file, const std::string& user, unsigned id) {
    const auto text = base::read_file(file);
    if (!text) return false;
    const auto lines = base::split(*text, '\n');
    return std::any_of(lines.begin(), lines.end(), [&](std::string_view line) {
        return line.starts_with(user + ":") || line.starts_with(std::to_string(id) + ":");
    });
}

bool has_subordinate_ids() {
    const passwd* entry = getpwuid(getuid());
    const std::string name = entry == nullptr ? "" : entry->pw_name;
    return !name.empty() && has_line_for("/etc/subuid", name, getuid()) &&
           has_line_for("/etc/subgid", name, getuid());
}

bool has_cdi_file_of_nvidia() {
    for (const char* directory : {"/etc/cdi", "/var/run/cdi"}) {
        std::error_code error;
        for (const auto& entry : base::entries_of(directory, error)) {
            if (entry.path().filename().string().find("nvidia") != std::string::npos) return true;
        }
    }
    return false;
}

void look_at_hardware(HostFacts& facts) {
    utsname system{};
    if (uname(&system) == 0) facts.kernel = system.release;
    std::error_code error;
    facts.cgroup_version = fs::exists("/sys/fs/cgroup/cgroup.controllers", error) ? 2 : 1;
    facts.has_infiniband = fs::exists("/dev/infiniband", error);
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) facts.lockable_bytes = limit.rlim_cur;
    facts.has_nvidia = fs::exists("/dev/nvidiactl", error);
    facts.has_cdi_file = has_cdi_file_of_nvidia();
}

// Slurm has the directory of its plugins built in, and PluginDir in slurm.conf replaces it.
constexpr std::string_view usual_plugin_directories =
    "/usr/lib/x86_64-linux-gnu/slurm-wlm:/usr/lib/aarch64-linux-gnu/slurm-wlm:/usr/lib64/slurm:"
    "/usr/lib/slurm:/usr/local/lib/slurm:/opt/slurm/lib/slurm";

base::Result<PmixPlugin> find_pmix_plugin(const base::Result<site::Site>& site) {
    const std::string type = TRY(site).mpi;
    if (!type.starts_with("pmix")) return PmixPlugin{};
    const auto conf = node::read_slurm_conf(base::variable("SLURM_CONF").value_or(""));
    std::string set = node::slurm_conf_value(conf.text, "PluginDir").value_or("");
    std::erase(set, '"');
    return look_at_pmix_plugin(type, set.empty() ? usual_plugin_directories : set);
}

// plugstack.conf may name another program than the installed one.
base::Result<void> find_node_program(const HostFacts& facts) {
    constexpr std::string_view argument = "node_program=";
    std::string path = BATCHAI_LIBEXECDIR "/batchai-node";
    const auto lines =
        facts.plugstack ? lines_of_batchai(*facts.plugstack) : std::vector<PlugstackLine>();
    for (const PlugstackLine& line : lines) {
        for (const std::string& word : line.arguments) {
            if (word.starts_with(argument)) path = word.substr(argument.size());
        }
    }
    if (access(path.c_str(), X_OK) == 0) return {};
    return base::system_error("run", path);
}

}  // namespace

HostFacts look_at_host() {
    HostFacts facts;
    facts.host = node::node_name();
    facts.user = getuid();
    facts.slurm_version = slurm::Client(probe_deadline).version();
    look_at_plugin(facts);
    facts.node_program = find_node_program(facts);
    facts.site = site::load_default();
    facts.site_file = look_at_site_file(facts.site);
    if (facts.site) look_for_directories(*facts.site, facts);
    facts.pmix_plugin = find_pmix_plugin(facts.site);
    const std::string node_directory =
        facts.site ? facts.site->node_directory : site::Site().node_directory;
    facts.namespaces = tried("user namespace", try_namespaces);
    facts.overlay = tried(node_directory, [&] { return try_overlay(node_directory); });
    facts.fuse = try_fuse();
    facts.limits_of_namespaces = namespace_limits();
    facts.programs = programs_on_path();
    facts.has_subordinate_ids = has_subordinate_ids();
    facts.node_directory = look_at_directory(node_directory);
    facts.home = look_at_home();
    facts.address = slurm::addresses_of({facts.host}).front();
    look_at_hardware(facts);
    facts.time = base::now();
    return facts;
}

}  // namespace batchai::admin

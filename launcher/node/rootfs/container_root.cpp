// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/container_root.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "node/bundle/bundle.hpp"
#include "node/devices/cdi_hooks.hpp"
#include "node/rootfs/image_layers.hpp"
#include "node/rootfs/in_root.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t file_limit = 1UL << 20U;
constexpr const char* apt_directory = "/etc/apt/apt.conf.d";
constexpr const char* apt_file = "/etc/apt/apt.conf.d/99batchai";
constexpr const char* apt_text = "APT::Sandbox::User \"root\";\n";

std::string node_file(const char* path) {
    return base::read_file(path, file_limit).value_or("");
}

// Writes only what differs, because the writable layer keeps the file from step to step.
base::Result<void> keep_written(const Root& root, const char* path, const std::string& text) {
    if (read_in_root(root, path) == text) return {};
    return write_in_root(root, path, text);
}

// Writes /etc/{passwd,group,hosts,resolv.conf} of the container: the image's accounts and the
// user's, and the names that the node knows. Where there is only one id, apt is told not to change
// to another.
base::Result<void> write_container_files(const NodeFiles& files, bool one_id, const Root& root) {
    const auto image_text = [&](const char* path) { return read_in_root(root, path).value_or(""); };
    TRY(keep_written(root, "/etc/passwd", passwd_with(image_text("/etc/passwd"), files.account)));
    TRY(keep_written(root, "/etc/group", group_with(image_text("/etc/group"), files.account)));
    TRY(keep_written(root, "/etc/hosts", files.hosts));
    TRY(keep_written(root, "/etc/resolv.conf", files.name_servers));
    if (!one_id) return {};
    if (!open_in_root(root, apt_directory, O_PATH | O_DIRECTORY).valid()) return {};
    return keep_written(root, apt_file, apt_text);
}

constexpr std::int64_t directory_bytes = 1 << 20;
constexpr std::array<const char*, 7> required{"null",    "zero", "full", "random",
                                              "urandom", "tty",  "ptmx"};
constexpr std::array<const char*, 6> optional{"pts",        "mqueue", "hugepages",
                                              "infiniband", "knem",   "xpmem"};
constexpr std::array<std::pair<const char*, const char*>, 5> links{{{"/proc/self/fd", "fd"},
                                                                    {"/proc/self/fd/0", "stdin"},
                                                                    {"/proc/self/fd/1", "stdout"},
                                                                    {"/proc/self/fd/2", "stderr"},
                                                                    {"/proc/kcore", "core"}}};

// The node's devices that every container has: those that programs cannot do without, and those of
// the InfiniBand network and of memory shared between ranks (knem, xpmem).
std::vector<Bind> common_devices() {
    std::vector<Bind> binds;
    const auto add = [&](const char* name, bool is_optional) {
        const std::string path = std::string("/dev/") + name;
        binds.push_back({.source = path, .target = path, .optional = is_optional});
    };
    for (const char* name : required)
        add(name, false);
    for (const char* name : optional)
        add(name, true);
    return binds;
}

// /dev of the container is a file system of its own, with the links that programs expect.
base::Result<void> make_device_directory(const Root& root) {
    TRY(mount_tmpfs({.target = "/dev", .mode = "755", .bytes = directory_bytes}, root));
    const auto directory = TRY(make_directory_in_root(root, "/dev"));
    for (const auto& [to, name] : links) {
        if (symlinkat(to, directory.get(), name) != 0)
            return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)),
                              fmt::format("/dev/{} in the container", name));
    }
    return {};
}

constexpr std::int64_t hidden_bytes = 4096;

// In the order in which they are mounted: /dev before what is in it.
struct HostTrees {
    std::vector<HostTree> kernel;   // /proc and /sys
    std::vector<HostTree> devices;  // below /dev
    std::vector<HostTree> others;
};

base::Result<void> copy_all(const std::vector<Bind>& binds, std::vector<HostTree>& into) {
    for (const Bind& bind : binds) {
        into.push_back(TRY(copy_host_tree(bind)));
    }
    return {};
}

base::Result<void> attach_all(const std::vector<HostTree>& trees, const Root& root) {
    for (const HostTree& tree : trees) {
        TRY(attach(tree, root));
    }
    return {};
}

std::vector<Bind> device_binds(const RootRequest& request) {
    std::vector<Bind> binds = common_devices();
    binds.insert(binds.end(), request.devices.nodes.begin(), request.devices.nodes.end());
    if (request.plan.container->shm_bytes == 0)
        binds.push_back({.source = "/dev/shm", .target = "/dev/shm"});
    return binds;
}

base::Result<HostTrees> copy_host(const RootRequest& request) {
    HostTrees trees;
    TRY(copy_all({{.source = "/proc", .target = "/proc"}, {.source = "/sys", .target = "/sys"}},
                 trees.kernel));
    TRY(copy_all(device_binds(request), trees.devices));
    TRY(copy_all(plan_binds(request.plan, request.places), trees.others));
    TRY(copy_all(request.devices.mounts, trees.others));
    return trees;
}

base::Result<void> fill(const RootRequest& request, const HostTrees& trees, const Root& place,
                        const Root& root) {
    const plan::Container& container = *request.plan.container;
    TRY(attach_all(trees.kernel, root));
    TRY(make_device_directory(root));
    TRY(attach_all(trees.devices, root));
    if (container.shm_bytes != 0)
        TRY(mount_tmpfs({.target = "/dev/shm", .mode = "1777", .bytes = container.shm_bytes},
                        root));
    TRY(write_container_files(request.files, request.one_id, root));
    TRY(attach_all(trees.others, root));
    // Nobody inside may change the writable layer behind the overlay's back.
    return mount_tmpfs(
        {.target = place.path, .mode = "755", .bytes = hidden_bytes, .read_only = true}, root);
}

base::Result<void> change_root(const Root& root) {
    // The old root is mounted over the new one, and taken off.
    if (fchdir(root.directory.get()) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
        umount2(".", MNT_DETACH) == 0 && chdir("/") == 0)
        return {};
    return base::fail(
        fmt::format("cannot change to the container's root file system: {}", std::strerror(errno)));
}

// Lets the image's loader know of libraries that came with the devices or lie in directories that
// the vendor's hooks named. An image without ldconfig has no list of libraries.
void refresh_library_list(const DeviceEdits& devices, const std::vector<std::string>& directories,
                          const Trace& trace) {
    const bool any =
        !directories.empty() ||
        std::any_of(devices.mounts.begin(), devices.mounts.end(),
                    [](const Bind& bind) { return bind.target.find(".so") != std::string::npos; });
    if (!any || access("/sbin/ldconfig", X_OK) != 0) return;
    base::Arguments arguments{"/sbin/ldconfig"};
    arguments.insert(arguments.end(), directories.begin(), directories.end());
    const auto ended = base::run(arguments);
    if (!ended || ended->exit_code != 0)
        trace.line("ldconfig in the container failed: " +
                   (ended ? ended->standard_error : ended.error().text()));
}

}  // namespace

NodeFiles read_node_files() {
    return {.account = find_account(),
            .hosts = node_file("/etc/hosts"),
            .name_servers = node_file("/etc/resolv.conf")};
}

base::Result<std::vector<FuseServer>> change_to_container_root(const RootRequest& request,
                                                               const Root& place,
                                                               const Trace& trace) {
    // Before the image is mounted: the copies must not contain it.
    const auto trees = TRY(copy_host(request));
    auto layers = TRY(mount_image_layers(*request.plan.container, place, trace));
    TRY(fill(request, trees, place, layers.root));
    const std::string name = "batchai-" + request.job_id;
    const auto libraries =
        TRY(run_hooks(request.devices.hooks,
                      {.root = layers.root, .bundle = place.path, .job_name = name}, trace));
    show_bundle(request.plan, layers.root, trace);
    TRY(change_root(layers.root));
    refresh_library_list(request.devices, libraries, trace);
    return std::move(layers.servers);
}

}  // namespace batchai::node

// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/container_root.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process.hpp"
#include "node/bundle/bundle.hpp"
#include "node/devices/cdi_hooks.hpp"
#include "node/devices/devices.hpp"
#include "node/rootfs/fresh_mount.hpp"
#include "node/rootfs/host_tree.hpp"
#include "node/rootfs/image_layers.hpp"

namespace batchai::node {

namespace {

constexpr std::int64_t hidden_bytes = 4096;

// In the order in which they are mounted: /dev before what is in it.
struct HostTrees {
    std::vector<HostTree> kernel;   // /proc and /sys
    std::vector<HostTree> devices;  // below /dev
    std::vector<HostTree> others;
};

base::Result<void> copy_all(const std::vector<Bind>& binds, std::vector<HostTree>& into) {
    for (const Bind& bind : binds) {
        auto tree = copy_host_tree(bind);
        if (!tree) return tl::unexpected<base::Error>(tree.error());
        into.push_back(std::move(*tree));
    }
    return {};
}

base::Result<void> attach_all(const std::vector<HostTree>& trees, const Root& root) {
    for (const HostTree& tree : trees) {
        if (auto attached = attach(tree, root); !attached) return attached;
    }
    return {};
}

std::vector<Bind> device_binds(const RootRequest& request) {
    std::vector<Bind> binds = common_devices();
    binds.insert(binds.end(), request.devices.nodes.begin(), request.devices.nodes.end());
    if (request.plan.container->shm_bytes == 0)
        binds.push_back({"/dev/shm", "/dev/shm", false, false});
    return binds;
}

base::Result<HostTrees> copy_host(const RootRequest& request) {
    HostTrees trees;
    auto copied = copy_all({{"/proc", "/proc"}, {"/sys", "/sys"}}, trees.kernel)
                      .and_then([&] { return copy_all(device_binds(request), trees.devices); })
                      .and_then([&] {
                          return copy_all(plan_binds(request.plan, request.places), trees.others);
                      })
                      .and_then([&] { return copy_all(request.devices.mounts, trees.others); });
    if (!copied) return tl::unexpected<base::Error>(copied.error());
    return trees;
}

base::Result<void> fill(const RootRequest& request, const HostTrees& trees, const Root& place,
                        const Root& root) {
    const plan::Container& container = *request.plan.container;
    return attach_all(trees.kernel, root)
        .and_then([&] { return make_device_directory(root); })
        .and_then([&] { return attach_all(trees.devices, root); })
        .and_then([&] {
            if (container.shm_bytes == 0) return base::Result<void>{};
            return mount_tmpfs({"/dev/shm", "1777", container.shm_bytes}, root);
        })
        .and_then([&] { return write_container_files(request.files, request.one_id, root); })
        .and_then([&] { return attach_all(trees.others, root); })
        // The writable layer is not to be changed behind the overlay's back.
        .and_then([&] {
            return mount_tmpfs({place.path, "755", hidden_bytes, true}, root);
        });
}

base::Result<void> change_root(const Root& root) {
    // The old root is mounted over the new one, and taken off.
    if (fchdir(root.directory.get()) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
        umount2(".", MNT_DETACH) == 0 && chdir("/") == 0)
        return {};
    return base::fail(
        fmt::format("cannot change to the container's root file system: {}", std::strerror(errno)));
}

// Libraries of the devices came into directories of the image, or the vendor's hooks named further
// ones: the loader has to learn of them. Best effort: an image without ldconfig has no such list.
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

base::Result<std::vector<FuseServer>> change_to_container_root(const RootRequest& request,
                                                               const Root& place,
                                                               const Trace& trace) {
    // Before the image is mounted: the copies must not contain it.
    const auto trees = copy_host(request);
    if (!trees) return tl::unexpected<base::Error>(trees.error());
    auto layers = mount_image_layers(*request.plan.container, place, trace);
    if (!layers) return tl::unexpected<base::Error>(layers.error());
    if (auto filled = fill(request, *trees, place, layers->root); !filled)
        return tl::unexpected<base::Error>(filled.error());
    const auto libraries = run_hooks(
        request.devices.hooks, {layers->root, place.path, "batchai-" + request.job_id}, trace);
    if (!libraries) return tl::unexpected<base::Error>(libraries.error());
    show_bundle(request.plan, layers->root, trace);
    if (auto changed = change_root(layers->root); !changed)
        return tl::unexpected<base::Error>(changed.error());
    refresh_library_list(request.devices, *libraries, trace);
    return std::move(layers->servers);
}

}  // namespace batchai::node

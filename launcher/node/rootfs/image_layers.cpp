// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/image_layers.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace batchai::node {

namespace {

// All below `place`, which is the working directory: so no comma or colon of its path can be taken
// for one of overlay's.
constexpr const char* image_name = "image";
constexpr const char* upper_name = "upper";
constexpr const char* work_name = "work";
constexpr const char* root_name = "root";

base::Error image_error(const plan::Container& container, std::string what, std::string hint) {
    return {fmt::format("cannot use the image {}: {}", container.image, what), container.root,
            std::move(hint), base::ExitCode::failed};
}

base::Result<void> check_there(const plan::Container& container) {
    struct stat status {};
    if (stat(container.root.c_str(), &status) != 0) {
        const std::string hint =
            container.digest.empty()
                ? "it must be on a file system that every node sees"
                : fmt::format(
                      "batchai image pull {} puts it there; the cache must be on a file "
                      "system that every node sees",
                      container.image);
        return tl::unexpected<base::Error>(image_error(container, std::strerror(errno), hint));
    }
    if (S_ISDIR(status.st_mode) == container.root_is_directory) return {};
    return tl::unexpected<base::Error>(image_error(
        container, container.root_is_directory ? "is not a directory" : "is a directory",
        "submit the job again"));
}

base::Result<FuseServer> mount_squashfs(const plan::Container& container) {
    auto server = FuseServer::start({"squashfuse_ll",
                                     {"-f", "-o", "ro", container.root},
                                     image_name,
                                     "squashfuse",
                                     "the image " + container.image});
    if (server) return server;
    base::Error error = server.error();
    if (error.where.empty()) error.where = container.root;
    return tl::unexpected<base::Error>(std::move(error));
}

base::Result<void> mount_directory(const plan::Container& container) {
    const base::FileDescriptor tree(open_tree(AT_FDCWD, container.root.c_str(),
                                              AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (tree.valid() &&
        move_mount(tree.get(), "", AT_FDCWD, image_name, MOVE_MOUNT_F_EMPTY_PATH) == 0)
        return {};
    return tl::unexpected<base::Error>(image_error(container, std::strerror(errno), {}));
}

// Whether files of the image could be changed through the kernel's overlay: it copies them up with
// their owner, who must be somebody in this user namespace.
bool owner_is_known() {
    struct stat status {};
    return stat(image_name, &status) == 0 && status.st_uid == 0;
}

base::Result<void> mount_kernel_overlay() {
    if (mount("overlay", root_name, "overlay", MS_NOSUID | MS_NODEV,
              "lowerdir=image,upperdir=upper,workdir=work,userxattr") == 0)
        return {};
    return base::fail(std::strerror(errno));
}

base::Result<FuseServer> mount_fuse_overlay() {
    return FuseServer::start(
        {"fuse-overlayfs",
         {"-f", "-o", "lowerdir=image,upperdir=upper,workdir=work,squash_to_root"},
         root_name,
         "fuse-overlayfs",
         "the writable layer over the image",
         false});
}

}  // namespace

base::Result<ImageLayers> mount_image_layers(const plan::Container& container, const Root& place,
                                             const Trace& trace) {
    if (auto there = check_there(container); !there)
        return tl::unexpected<base::Error>(there.error());
    if (fchdir(place.directory.get()) != 0)
        return base::fail(fmt::format("cannot be entered: {}", std::strerror(errno)), place.path);
    for (const char* name : {image_name, upper_name, work_name, root_name}) {
        if (mkdir(name, 0755) != 0 && errno != EEXIST)
            return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)),
                              fmt::format("{}/{}", place.path, name));
    }
    ImageLayers layers;
    if (container.root_is_directory) {
        if (auto mounted = mount_directory(container); !mounted)
            return tl::unexpected<base::Error>(mounted.error());
    } else {
        auto server = mount_squashfs(container);
        if (!server) return tl::unexpected<base::Error>(server.error());
        layers.servers.push_back(*server);
    }
    const auto by_kernel = owner_is_known()
                               ? mount_kernel_overlay()
                               : base::fail("the image's files belong to somebody else");
    if (!by_kernel) {
        auto server = mount_fuse_overlay();
        if (!server) {
            base::Error error = server.error();
            error.what =
                fmt::format("{} (the kernel's overlay: {})", error.what, by_kernel.error().what);
            return tl::unexpected<base::Error>(std::move(error));
        }
        layers.servers.push_back(*server);
        trace.line("the container's writable layer is made by fuse-overlayfs: " +
                   by_kernel.error().what);
    }
    layers.root.directory = base::FileDescriptor(open(root_name, O_PATH | O_DIRECTORY | O_CLOEXEC));
    layers.root.path = place.path + '/' + root_name;
    if (!layers.root.directory.valid())
        return base::fail(fmt::format("cannot be opened: {}", std::strerror(errno)),
                          layers.root.path);
    return layers;
}

}  // namespace batchai::node

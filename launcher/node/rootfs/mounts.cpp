// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/mounts.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "node/rootfs/in_root.hpp"
#include "plan/paths.hpp"

namespace batchai::node {

namespace {

tl::unexpected<base::Error> bind_error(const Bind& bind, std::string_view what, int code) {
    return base::fail(
        fmt::format("cannot be shown in the container: {}: {}", what, std::strerror(code)),
        bind.source, bind.hint);
}

std::string source_hint(int code, const plan::Mount& mount) {
    if (code == ENOENT || code == ENOTDIR)
        return fmt::format("the site maps it to {}, which is not a directory on this node",
                           mount.source);
    if (code == EACCES) return "you have no right to enter it; ask its owner or the admin";
    if (code == EXDEV || code == ELOOP)
        return fmt::format("a symbolic link in it leads out of {}", mount.source_root);
    if (code == ESTALE || code == ENOTCONN || code == EIO)
        return "the file system behind it does not answer; the admin can remount it";
    return {};
}

tl::unexpected<base::Error> mount_error(const plan::Mount& mount, std::string_view what, int code) {
    return base::fail(fmt::format("{}: {}", what, std::strerror(code)), {},
                      source_hint(code, mount));
}

base::FileDescriptor open_directory(const plan::Mount& mount) {
    if (mount.source_root.empty() || mount.source_root == mount.source)
        return base::FileDescriptor(open(mount.source.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto below = base::relative_to(mount.source_root, mount.source);
    if (!below) {
        errno = EINVAL;
        return {};
    }
    const base::FileDescriptor root(
        open(mount.source_root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root.valid()) return {};
    // Symbolic links that stay below the root are followed, because users make them on purpose.
    return base::open_beneath(root.get(), *below, O_PATH | O_DIRECTORY, 0, base::Links::inside);
}

}  // namespace

base::Result<HostTree> copy_host_tree(const Bind& bind) {
    HostTree copy{.bind = bind};
    const base::FileDescriptor source(open(bind.source.c_str(), O_PATH | O_CLOEXEC));
    struct stat status {};
    if (!source.valid() || fstat(source.get(), &status) != 0) {
        if (bind.optional) return copy;
        return bind_error(bind, "open", errno);
    }
    copy.is_directory = S_ISDIR(status.st_mode);
    copy.tree = base::FileDescriptor(open_tree(
        source.get(), "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (!copy.tree.valid()) {
        if (bind.optional) return copy;
        return bind_error(bind, "open_tree", errno);
    }
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_RDONLY;
    if (bind.read_only && mount_setattr(copy.tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE,
                                        &attributes, sizeof attributes) != 0)
        return bind_error(bind, "cannot make it read-only", errno);
    return copy;
}

base::Result<void> attach(const HostTree& host, const base::Root& root) {
    if (!host.tree.valid()) return {};
    const auto target = TRY(host.is_directory ? make_directory_in_root(root, host.bind.target)
                                              : make_file_in_root(root, host.bind.target));
    if (move_mount(host.tree.get(), "", target.get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return bind_error(host.bind, "move_mount", errno);
    return {};
}

base::Result<void> mount_tmpfs(const FreshTmpfs& request, const base::Root& root) {
    const auto failed = [&](std::string_view what) {
        return base::fail(fmt::format("cannot mount a tmpfs: {}: {}", what, std::strerror(errno)),
                          fmt::format("{} in the container", request.target));
    };
    const auto target = TRY(make_directory_in_root(root, request.target));
    const base::FileDescriptor context(fsopen("tmpfs", FSOPEN_CLOEXEC));
    if (!context.valid()) return failed("fsopen");
    const auto set = [&](const char* key, const std::string& value) {
        return fsconfig(context.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0) == 0;
    };
    if (!set("mode", request.mode) || !set("size", std::to_string(request.bytes)) ||
        fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
        return failed("fsconfig");
    // "nodev" is for device files that are made in the tmpfs. Devices that are mounted there keep
    // the permissions of their own mount.
    const unsigned int attributes =
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (request.read_only ? MOUNT_ATTR_RDONLY : 0U);
    const base::FileDescriptor mounted(fsmount(context.get(), FSMOUNT_CLOEXEC, attributes));
    if (!mounted.valid()) return failed("fsmount");
    if (move_mount(mounted.get(), "", target.get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return failed("move_mount");
    return {};
}

base::Result<base::FileDescriptor> open_mount_source(const plan::Mount& mount) {
    if (mount.create_source) TRY(base::make_directories(mount.source));
    base::FileDescriptor source = open_directory(mount);
    if (!source.valid()) return mount_error(mount, mount.source, errno);
    // O_PATH needs no permission on the directory itself, but a mount that the user cannot enter is
    // of no use.
    if (faccessat(source.get(), ".", X_OK, AT_EACCESS) != 0)
        return mount_error(mount, mount.source, errno);
    return source;
}

base::Result<void> bind_mount(const plan::Mount& mount, const base::Root& root) {
    if (!mount.source.starts_with('/') || !base::is_plain_relative(mount.target))
        return mount_error(mount, "the plan is damaged", EINVAL);
    auto source = TRY(open_mount_source(mount));
    auto target = TRY(base::make_beneath(root, mount.target));

    const base::FileDescriptor tree(open_tree(
        source.get(), "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (!tree.valid()) return mount_error(mount, "open_tree", errno);
    mount_attr attributes{};
    if (mount.read_only) attributes.attr_set |= MOUNT_ATTR_RDONLY;
    if (mount.no_execute) attributes.attr_set |= MOUNT_ATTR_NOEXEC;
    if (attributes.attr_set != 0 && mount_setattr(tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE,
                                                  &attributes, sizeof attributes) != 0)
        return mount_error(mount, "cannot restrict it", errno);
    if (move_mount(tree.get(), "", target.get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return mount_error(mount, "move_mount", errno);
    return {};
}

namespace {

// These directories belong to the image. A directory of the user mounted there would hide the
// image's programs.
constexpr std::string_view kept_from_image[] = {"/usr",   "/bin", "/sbin", "/lib", "/lib32",
                                                "/lib64", "/etc", "/opt",  "/dev", "/proc",
                                                "/sys",   "/var", "/boot", "/run"};

bool is_image_place(std::string_view path) {
    if (path.empty() || path == "/") return true;
    return std::any_of(std::begin(kept_from_image), std::end(kept_from_image),
                       [&](std::string_view place) { return plan::is_within(path, place); });
}

constexpr const char* site_hint =
    "container_binds of site.lua names it; an entry for nodes that need not have it ends with "
    ":optional";

// Returns whether `inner` is already visible in `outer`.
bool shows(const Bind& outer, const Bind& inner) {
    return outer.source == outer.target && inner.source == inner.target &&
           outer.read_only == inner.read_only;
}

class Collected {
  public:
    void add(const plan::HostBind& bind) {
        binds_.push_back({bind.source, bind.target, bind.read_only, bind.optional, site_hint});
    }
    void add(const std::string& path, bool optional = true) {
        if (!path.starts_with('/')) return;
        const std::string clean = plan::normalized(path);
        if (clean == "/" || plan::has_parent_component(clean)) return;
        binds_.push_back({clean, clean, false, optional, {}});
    }
    void add_of_user(const std::string& path) {
        if (!is_image_place(path)) add(path);
    }
    std::vector<Bind> outer_first() && {
        std::stable_sort(binds_.begin(), binds_.end(), [](const Bind& left, const Bind& right) {
            return left.target.size() < right.target.size();
        });
        std::vector<Bind> kept;
        for (Bind& bind : binds_) {
            // The innermost directory that contains the target decides. It is the last match,
            // because longer names come later.
            const auto outer = std::find_if(kept.rbegin(), kept.rend(), [&](const Bind& candidate) {
                return plan::is_within(bind.target, candidate.target);
            });
            if (outer == kept.rend() || !shows(*outer, bind)) kept.push_back(std::move(bind));
        }
        return kept;
    }

  private:
    std::vector<Bind> binds_;
};

}  // namespace

std::vector<Bind> plan_binds(const plan::Plan& plan, const NodePlaces& places) {
    const plan::Directories& directories = plan.directories;
    Collected collected;
    // Slurm, MPI libraries and users need /tmp, and PMIx has its directory for a step's clients
    // there.
    collected.add("/tmp");
    collected.add(directories.node_root, false);
    collected.add(places.spool);
    collected.add_of_user(places.home);
    collected.add(directories.job_directory, false);
    // The tasks of an array share it, so it is not in the job directory of each.
    if (plan.snapshot) collected.add(plan.snapshot->directory, false);
    collected.add(directories.shared_job_temp);
    collected.add(directories.stdouterr_host);
    for (const plan::OutputDirectory& output : plan.outputs)
        collected.add(output.path_host);
    collected.add_of_user(places.submit_directory);
    if (plan.container) {
        for (const plan::HostBind& bind : plan.container->binds)
            collected.add(bind);
    }
    return std::move(collected).outer_first();
}

std::optional<Bind> further_bind(const plan::Plan& plan, const NodePlaces& places) {
    if (is_image_place(places.submit_directory)) return std::nullopt;
    const std::string directory = plan::normalized(places.submit_directory);
    std::vector<Bind> binds = plan_binds(plan, places);
    const auto found = std::find_if(binds.begin(), binds.end(), [&](const Bind& bind) {
        return bind.target == directory && bind.source == directory;
    });
    const bool of_every_step = plan_binds(plan, {places.home, places.spool, {}}) == binds;
    if (found == binds.end() || of_every_step) return std::nullopt;
    return std::move(*found);
}

namespace {

constexpr const char* device_path = "/dev/fuse";

std::string device_hint(int code) {
    if (code == EACCES || code == EPERM)
        return "users must be allowed to open it on every node; the admin can give it mode 0666 "
               "(udev does so where the package fuse3 is installed)";
    if (code == ENOENT || code == ENODEV || code == ENXIO)
        return "the kernel module fuse is not loaded on this node; the admin can load it";
    return {};
}

}  // namespace

base::Result<base::FileDescriptor> open_fuse_device() {
    base::FileDescriptor device(open(device_path, O_RDWR | O_CLOEXEC));
    if (device.valid()) return device;
    const int code = errno;
    return base::fail(fmt::format("cannot be opened: {}", std::strerror(code)), device_path,
                      device_hint(code));
}

base::Result<void> mount_fuse(const base::FileDescriptor& device, const FuseMount& request) {
    std::string options = fmt::format("fd={},rootmode=40000,user_id={},group_id={},allow_other",
                                      device.get(), geteuid(), getegid());
    if (request.kernel_checks_modes) options += ",default_permissions";
    unsigned long flags = MS_NOSUID | MS_NODEV;
    if (request.read_only) flags |= MS_RDONLY;
    if (request.no_execute) flags |= MS_NOEXEC;
    const std::string type = "fuse." + request.program;
    if (mount(request.source.c_str(), request.target.c_str(), type.c_str(), flags,
              options.c_str()) == 0)
        return {};
    return base::fail(fmt::format("cannot be mounted: {}", std::strerror(errno)), "FUSE",
                      "FUSE mounts in user namespaces need Linux 4.18 or newer");
}

}  // namespace batchai::node

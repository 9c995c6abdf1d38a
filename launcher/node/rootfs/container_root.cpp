// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/container_root.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "node/bundle/bundle.hpp"
#include "node/devices/cdi_hooks.hpp"
#include "node/rootfs/in_root.hpp"
#include "node/rootfs/mounts.hpp"

namespace batchai::node {

namespace {

constexpr int device_in_program = 3;
constexpr int file_in_program = 4;

std::string read_from_start(int file) {
    std::string text(4096, '\0');
    const ssize_t count = pread(file, text.data(), text.size(), 0);
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return std::string(base::trim(text));
}

base::Program program_of(const FuseRequest& request, int device, int errors) {
    base::Program program{
        .arguments = {request.program},
        .environment = {},
        .descriptors = {{.ours = -1, .its = STDIN_FILENO},
                        {.ours = -1, .its = STDOUT_FILENO},
                        {.ours = errors, .its = STDERR_FILENO},
                        {.ours = device, .its = device_in_program}},
        // The program must not keep the other descriptors open: among them are sockets and pipes
        // whose end other processes wait for.
        .closes_all_others = true,
        // The program serves nobody once this process has ended.
        .ends_with_us = true,
        .signals = base::Signals::inherited,
        .missing_hint =
            fmt::format("the admin must install the package {} on this node", request.package)};
    if (request.file >= 0)
        program.descriptors.push_back({.ours = request.file, .its = file_in_program});
    program.arguments.insert(program.arguments.end(), request.arguments.begin(),
                             request.arguments.end());
    program.arguments.push_back(fmt::format("/dev/fd/{}", device_in_program));
    return program;
}

// Returns whether the file system answers. The kernel holds this first request back until the
// program has answered FUSE's initialization request.
bool answers(const std::string& directory) {
    DIR* const stream = opendir(directory.c_str());
    if (stream == nullptr) return false;
    errno = 0;
    const bool readable = readdir(stream) != nullptr || errno == 0;
    closedir(stream);
    return readable;
}

// Names below `place`, which is the working directory. They are relative so that the kernel cannot
// take a comma or colon in the path of `place` for a separator of overlay's options.
constexpr const char* image_name = "image";
constexpr const char* upper_name = "upper";
constexpr const char* work_name = "work";
constexpr const char* root_name = "root";

tl::unexpected<base::Error> cannot_use_image(const plan::Container& container,
                                             std::string_view what, std::string hint) {
    return base::fail(fmt::format("cannot use the image {}: {}", container.image, what),
                      container.root, std::move(hint));
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
        return cannot_use_image(container, std::strerror(errno), hint);
    }
    if (S_ISDIR(status.st_mode) == container.root_is_directory) return {};
    return cannot_use_image(container,
                            container.root_is_directory ? "is not a directory" : "is a directory",
                            "submit the job again");
}

// Mounts the open file, or the one at the path if it is not valid.
base::Result<FuseServer> mount_squashfs(const plan::Container& container,
                                        const base::FileDescriptor& image) {
    auto server = FuseServer::start(
        {.program = "squashfuse_ll",
         .arguments = {"-f", "-o", "ro",
                       image.valid() ? fmt::format("/dev/fd/{}", file_in_program) : container.root},
         .target = image_name,
         .package = "squashfuse",
         .what = "the image " + container.image,
         .file = image.get()});
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
    return cannot_use_image(container, std::strerror(errno), {});
}

// Returns whether files of the image can be changed through the kernel's overlay. It copies a file
// up with its owner, who must have an id in this user namespace.
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

// Checks the owner and the mode of an open file or directory.
base::Result<void> check_trusted(int opened, int owner, const std::string& path) {
    struct stat status {};
    if (fstat(opened, &status) != 0) return base::fail(std::strerror(errno), path);
    const bool trusted = status.st_uid == geteuid() || status.st_uid == 0 ||
                         (owner >= 0 && status.st_uid == static_cast<uid_t>(owner));
    if (!trusted)
        return base::fail(
            fmt::format("belongs to user {}, who is not trusted to provide images", status.st_uid),
            path, "remove it and submit the job again");
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return base::fail("can be written to by others, so it is not trusted to provide images",
                          path, fmt::format("chmod go-w {}, and import the image anew", path));
    return {};
}

}  // namespace

base::Result<base::FileDescriptor> open_image(const plan::Container& container) {
    if (container.digest.empty()) return base::FileDescriptor();
    const std::size_t slash = container.root.rfind('/');
    const std::string path = container.root.substr(0, slash);
    const base::FileDescriptor directory(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) return base::FileDescriptor();
    TRY(check_trusted(directory.get(), container.root_owner, path));
    base::FileDescriptor file(openat(directory.get(), container.root.substr(slash + 1).c_str(),
                                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.valid() && errno == ELOOP)
        return base::fail("is a symbolic link, so it is not trusted to provide images",
                          container.root, "remove it and submit the job again");
    if (file.valid()) TRY(check_trusted(file.get(), container.root_owner, container.root));
    return file;
}

base::Result<FuseServer> FuseServer::start(const FuseRequest& request) {
    auto device = TRY(open_fuse_device());
    // All users inside have access, subject to the modes of the files: root, the user and, if the
    // site has subordinate ids, the accounts of the image.
    auto mounted = mount_fuse(device, {.program = request.program,
                                       .source = request.program,
                                       .target = request.target,
                                       .read_only = request.read_only,
                                       .kernel_checks_modes = true});
    if (!mounted) {
        mounted.error().what =
            fmt::format("cannot mount {}: {}", request.what, mounted.error().what);
        return tl::unexpected<base::Error>(std::move(mounted).error());
    }
    const base::FileDescriptor errors(memfd_create("fuse-errors", MFD_CLOEXEC));
    if (!errors.valid()) return base::fail(fmt::format("memfd_create: {}", std::strerror(errno)));
    auto started = base::Child::start(program_of(request, device.get(), errors.get()));
    if (!started)
        return base::fail(fmt::format("cannot mount {}: {} {}", request.what, request.program,
                                      started.error().what),
                          {}, started.error().hint);
    // From now on only the program has the device open, so that its end also ends the wait for an
    // answer.
    device.reset(-1);
    FuseServer server(std::move(*started));
    if (answers(request.target)) return server;
    const int code = errno;
    server.process_.signal(SIGKILL);
    static_cast<void>(server.process_.wait());
    const std::string said = read_from_start(errors.get());
    return base::fail(fmt::format("cannot mount {}: {} {}", request.what, request.program,
                                  said.empty() ? std::string(std::strerror(code)) : said));
}

base::Result<ImageLayers> mount_image_layers(const plan::Container& container,
                                             const base::FileDescriptor& image,
                                             const base::Root& place, const Trace& trace) {
    TRY(check_there(container));
    // Mounted by its path, it would be an image that nobody has checked.
    if (!container.digest.empty() && !image.valid())
        return cannot_use_image(container, "could not be opened before the container was made",
                                "start the step again");
    if (fchdir(place.directory.get()) != 0)
        return base::fail(fmt::format("cannot be entered: {}", std::strerror(errno)), place.path);
    for (const char* name : {image_name, upper_name, work_name, root_name}) {
        if (mkdir(name, 0755) != 0 && errno != EEXIST)
            return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)),
                              fmt::format("{}/{}", place.path, name));
    }
    ImageLayers layers;
    if (container.root_is_directory) {
        TRY(mount_directory(container));
    } else {
        auto server = TRY(mount_squashfs(container, image));
        layers.servers.push_back(std::move(server));
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
        layers.servers.push_back(std::move(*server));
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

namespace {

constexpr std::size_t variables_limit = 1UL << 20U;
constexpr const char* apt_directory = "/etc/apt/apt.conf.d";
constexpr const char* apt_file = "/etc/apt/apt.conf.d/99batchai";
constexpr const char* apt_text = "APT::Sandbox::User \"root\";\n";

std::string node_file(const char* path) {
    return base::read_file(path, variables_limit).value_or("");
}

// Writes the file only if its text differs, because the writable layer keeps it from step to step.
base::Result<void> keep_written(const base::Root& root, const char* path, const std::string& text) {
    if (read_in_root(root, path) == text) return {};
    return write_in_root(root, path, text);
}

// Writes /etc/{passwd,group,hosts,resolv.conf} of the container with the accounts of the image and
// the user, and with the node's hosts and name servers. If there is only one id, also tells apt not
// to change to another user.
base::Result<void> write_container_files(const NodeFiles& files, bool one_id,
                                         const base::Root& root) {
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

// Returns the node's devices that every container has: those that programs cannot do without and,
// where the node has them, others such as those of InfiniBand and of memory shared between ranks
// (knem, xpmem).
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

// Mounts a tmpfs at /dev of the container and makes the links that programs expect there.
base::Result<void> make_device_directory(const base::Root& root) {
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

// Copies of the node's mount trees, in the order in which they are mounted. /dev itself is mounted
// before `devices`.
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

base::Result<void> attach_all(const std::vector<HostTree>& trees, const base::Root& root) {
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

base::Result<void> fill(const RootRequest& request, const HostTrees& trees, const base::Root& place,
                        const base::Root& root) {
    const plan::Container& container = *request.plan.container;
    TRY(attach_all(trees.kernel, root));
    TRY(make_device_directory(root));
    TRY(attach_all(trees.devices, root));
    if (container.shm_bytes != 0)
        TRY(mount_tmpfs({.target = "/dev/shm", .mode = "1777", .bytes = container.shm_bytes},
                        root));
    TRY(write_container_files(request.files, request.one_id, root));
    TRY(attach_all(trees.others, root));
    // Hides `place`, because processes inside may change the writable layer only through the
    // overlay.
    return mount_tmpfs(
        {.target = place.path, .mode = "755", .bytes = hidden_bytes, .read_only = true}, root);
}

base::Result<void> change_root(const base::Root& root) {
    // pivot_root stacks the old root on top of the new one, and umount2 detaches it.
    if (fchdir(root.directory.get()) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
        umount2(".", MNT_DETACH) == 0 && chdir("/") == 0)
        return {};
    return base::fail(
        fmt::format("cannot change to the container's root file system: {}", std::strerror(errno)));
}

// Updates the library cache of the image's loader, for libraries that came with the devices or are
// in directories that the vendor's hooks named. An image without ldconfig has no such cache.
void refresh_library_list(const DeviceEdits& devices, const std::vector<std::string>& directories,
                          const Trace& trace) {
    const bool any =
        !directories.empty() ||
        std::any_of(devices.mounts.begin(), devices.mounts.end(),
                    [](const Bind& bind) { return bind.target.find(".so") != std::string::npos; });
    if (!any || access("/sbin/ldconfig", X_OK) != 0) return;
    base::Arguments arguments{"/sbin/ldconfig"};
    arguments.insert(arguments.end(), directories.begin(), directories.end());
    // It is the image's, and must not use up the time that the sandbox has.
    const auto ended =
        base::run(arguments, {.deadline = std::chrono::seconds(10), .own_group = true});
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
                                                               const base::Root& place,
                                                               const Trace& trace) {
    // The copies are made before the image is mounted, because they must not contain it.
    const auto trees = TRY(copy_host(request));
    auto layers = TRY(mount_image_layers(*request.plan.container, request.image, place, trace));
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

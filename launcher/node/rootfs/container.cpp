// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/container.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.hpp"
#include "node/devices/job_devices.hpp"
#include "node/keeper/keeper.hpp"
#include "node/keeper/leftovers.hpp"
#include "node/namespace/user_namespace.hpp"
#include "node/node_root.hpp"
#include "node/rootfs/in_root.hpp"
#include "plan/container.hpp"

namespace batchai::node {

namespace {

bool has(const std::vector<plan::Variable>& variables, std::string_view name) {
    return std::any_of(variables.begin(), variables.end(),
                       [&](const plan::Variable& variable) { return variable.name == name; });
}

base::Result<void> step_failed(const char* what) {
    return base::fail(fmt::format("{}: {}", what, std::strerror(errno)));
}

bool is_shown(const Bind& bind, const struct stat& wanted) {
    struct stat status {};
    return stat(bind.target.c_str(), &status) == 0 && status.st_dev == wanted.st_dev &&
           status.st_ino == wanted.st_ino;
}

// Mounts a directory of the node in the container. Its mount tree can be copied only in a mount
// namespace that has the node's mounts and belongs to the container's user namespace. So this
// process first enters that user namespace and makes such a mount namespace. It copies the tree
// there, and takes the copy into the container's mount namespace.
base::Result<void> show(const Connection& connection, const Bind& bind) {
    struct stat wanted {};
    if (stat(bind.source.c_str(), &wanted) != 0) return step_failed("cannot be examined");
    if (setns(connection.outer.get(), CLONE_NEWUSER) != 0 || unshare(CLONE_NEWNS) != 0)
        return step_failed("cannot be seen from the container's user namespace");
    const auto tree = TRY(copy_host_tree(bind));
    if (setns(connection.mounts.get(), CLONE_NEWNS) != 0)
        return step_failed("the container's mounts cannot be entered");
    if (is_shown(bind, wanted)) return {};
    const base::Root root{base::FileDescriptor(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), "/"};
    return attach(tree, root);
}

int show_and_tell(const Connection& connection, const Bind& bind, int answer) {
    std::string text;
    try {
        if (const auto shown = show(connection, bind); !shown) text = shown.error().what;
    } catch (const std::exception& error) {
        text = error.what();
    }
    const bool told = write(answer, text.data(), text.size()) >= 0;
    return told && text.empty() ? 0 : 1;
}

// Less than the plugin's default timeout for a sandbox, whose message would be less helpful.
constexpr std::chrono::seconds lock_deadline{25};

// Mounts a directory of the node in an existing container. All processes in the container see it
// until the container ends. The caller must be single-threaded, hold the lock of the container's
// directory, and be in the node's mount namespace. Does nothing if the container already has that
// very directory at the target.
base::Result<void> show_in_container(const Connection& connection, const Bind& bind) {
    base::Pipe answer = TRY(base::make_pipe());
    auto child = TRY(
        base::Child::fork([&] { return show_and_tell(connection, bind, answer.write_end.get()); }));
    answer.write_end.reset(-1);
    const std::string why = base::read_to_end(answer.read_end.get());
    if (child.wait() == 0) return {};
    return base::fail(why.empty() ? "cannot be shown in the container" : why, bind.source);
}

// Mounts the step's submit directory in a container that another step has made. A failure is only
// written to the trace, because the task itself will report that it cannot start there.
void show_submit_directory(const ContainerRequest& request, const Connection& connection,
                           const Trace& trace) {
    const auto bind = further_bind(request.plan, request.places);
    if (!bind) return;
    if (const auto shown = show_in_container(connection, *bind); !shown)
        trace.line("the directory from which the step was started is not in its container: " +
                   shown.error().text());
}

}  // namespace

TaskEnvironment container_environment(const plan::Container& container,
                                      const std::vector<plan::Variable>& devices,
                                      const std::vector<plan::Variable>& job) {
    TaskEnvironment made;
    // PMIx must do without the shared memory of its server and without munge's socket, because the
    // container has neither.
    made.set.push_back({"PMIX_MCA_gds", "hash"});
    made.set.push_back({"PMIX_MCA_psec", "native"});
    const auto of_image = plan::image_environment(container);
    made.set.insert(made.set.end(), of_image.begin(), of_image.end());
    made.set.insert(made.set.end(), devices.begin(), devices.end());
    made.set.insert(made.set.end(), job.begin(), job.end());
    for (const std::string_view name : plan::variables_of_host_software()) {
        if (!has(made.set, name)) made.unset.emplace_back(name);
    }
    return made;
}

std::string container_place(const std::string& job_id, const plan::Directories& directories) {
    const std::string& temporary = directories.job_temp;
    return fmt::format("container-{}-{}", job_id, temporary.substr(temporary.rfind('/') + 1));
}

base::Result<Joined> join_container(const ContainerRequest& request, const Trace& trace) {
    const auto begin = std::chrono::steady_clock::now();
    const auto node_root = TRY(base::open_private_directory(request.plan.directories.node_root));
    const std::string name = container_place(request.job_id, request.plan.directories);
    for (const std::string& path :
         {request.plan.directories.job_temp, fmt::format("{}/{}", node_root.path, name)})
        TRY(make_job_directory(node_root, path, request.job_id));
    auto directory = TRY(base::make_beneath(node_root, name));
    const base::Root place{std::move(directory), fmt::format("{}/{}", node_root.path, name)};
    DeviceEdits devices = devices_of_job(request.device_files, place, request.job_id, trace);
    const auto lock = TRY(lock_place(place, lock_deadline));
    forget_end(place);

    auto connection = TRY(connect_to_keeper(place));
    const bool joined = connection.has_value();
    if (!joined) {
        TRY(start_keeper({.plan = request.plan,
                          .job_id = request.job_id,
                          .places = request.places,
                          .files = read_node_files(),
                          .devices = devices,
                          .identities = find_identities(),
                          .place = name}));
        connection = TRY(connect_to_keeper(place));
        if (!connection)
            return base::fail("the container's keeper ended as soon as it was ready", place.path);
    }
    if (joined) show_submit_directory(request, *connection, trace);
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    trace.line(fmt::format("{} the container of {} in {} ms", joined ? "joined" : "made",
                           request.plan.container->image, spent.count()));
    return Joined{std::move(*connection), std::move(devices)};
}

}  // namespace batchai::node

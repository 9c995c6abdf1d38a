// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/container.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/devices/job_devices.hpp"
#include "node/job_directory.hpp"
#include "node/keeper/keeper.hpp"
#include "node/keeper/leftovers.hpp"
#include "node/namespace/user_namespace.hpp"
#include "node/rootfs/late_bind.hpp"

namespace batchai::node {

namespace {

// Less than the plugin's usual patience with a sandbox, which would have no better words.
constexpr std::chrono::seconds lock_deadline{25};

// The step that makes the container has it shown with all else. Best effort: the task then says
// that it cannot start there.
void show_submit_directory(const ContainerRequest& request, const Connection& connection,
                           const Trace& trace) {
    const auto bind = further_bind(request.plan, request.places);
    if (!bind) return;
    if (const auto shown = show_in_container(connection, *bind); !shown)
        trace.line("the directory from which the step was started is not in its container: " +
                   shown.error().text());
}

// An imported image is known by the name of its file alone: nobody else may be able to put another
// file there. What is missing is said where it is mounted.
base::Result<void> check_imported(const plan::Container& container) {
    if (container.digest.empty()) return {};
    const std::string directory = container.root.substr(0, container.root.rfind('/'));
    for (const std::string& path : {directory, container.root}) {
        struct stat status {};
        if (stat(path.c_str(), &status) != 0) return {};
        const bool trusted = status.st_uid == geteuid() || status.st_uid == 0 ||
                             (container.root_owner >= 0 &&
                              status.st_uid == static_cast<uid_t>(container.root_owner));
        if (!trusted)
            return base::fail(
                fmt::format("belongs to user {}: it is not trusted for images", status.st_uid),
                path, "remove it and submit the job again");
        if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
            return base::fail("can be written to by others: it is not trusted for images", path,
                              fmt::format("chmod go-w {}, and import the image anew", path));
    }
    return {};
}

}  // namespace

std::string container_place(const std::string& job_id, const plan::Directories& directories) {
    const std::string& temporary = directories.job_temp;
    return fmt::format("container-{}-{}", job_id, temporary.substr(temporary.rfind('/') + 1));
}

base::Result<Joined> join_container(const ContainerRequest& request, const Trace& trace) {
    const auto begin = std::chrono::steady_clock::now();
    const auto node_root = open_private_directory(request.plan.directories.node_root);
    if (!node_root) return tl::unexpected<base::Error>(node_root.error());
    const std::string name = container_place(request.job_id, request.plan.directories);
    for (const std::string& path :
         {request.plan.directories.job_temp, fmt::format("{}/{}", node_root->path, name)}) {
        const auto made = make_job_directory(*node_root, path, request.job_id);
        if (!made) return tl::unexpected<base::Error>(made.error());
    }
    auto directory = make_beneath(*node_root, name);
    if (!directory) return tl::unexpected<base::Error>(directory.error());
    const Root place{std::move(*directory), fmt::format("{}/{}", node_root->path, name)};
    DeviceEdits devices = devices_of_job(request.device_files, place, request.job_id, trace);
    const auto lock = lock_place(place, lock_deadline);
    if (!lock) return tl::unexpected<base::Error>(lock.error());
    forget_end(place);

    auto connection = connect_to_keeper(place);
    if (!connection) return tl::unexpected<base::Error>(connection.error());
    const bool joined = connection->has_value();
    if (!joined) {
        if (auto trusted = check_imported(*request.plan.container); !trusted)
            return tl::unexpected<base::Error>(trusted.error());
        const auto started = start_keeper({request.plan, request.job_id, request.places,
                                           read_node_files(), devices, find_identities(), name});
        if (!started) return tl::unexpected<base::Error>(started.error());
        connection = connect_to_keeper(place);
        if (!connection) return tl::unexpected<base::Error>(connection.error());
        if (!connection->has_value())
            return base::fail("the container's keeper ended as soon as it was ready", place.path);
    }
    if (joined) show_submit_directory(request, **connection, trace);
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    trace.line(fmt::format("{} the container of {} in {} ms", joined ? "joined" : "made",
                           request.plan.container->image, spent.count()));
    return Joined{std::move(**connection), std::move(devices)};
}

}  // namespace batchai::node

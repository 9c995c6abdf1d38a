// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/container_files.hpp"

#include <fcntl.h>

#include "base/file.hpp"
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

// Only what differs: the writable layer keeps it from step to step.
base::Result<void> keep_written(const Root& root, const char* path, const std::string& text) {
    if (read_in_root(root, path) == text) return {};
    return write_in_root(root, path, text);
}

}  // namespace

NodeFiles read_node_files() {
    return {find_account(), node_file("/etc/hosts"), node_file("/etc/resolv.conf")};
}

base::Result<void> write_container_files(const NodeFiles& files, bool one_id, const Root& root) {
    const auto image_text = [&](const char* path) { return read_in_root(root, path).value_or(""); };
    auto written =
        keep_written(root, "/etc/passwd", passwd_with(image_text("/etc/passwd"), files.account))
            .and_then([&] {
                return keep_written(root, "/etc/group",
                                    group_with(image_text("/etc/group"), files.account));
            })
            .and_then([&] { return keep_written(root, "/etc/hosts", files.hosts); })
            .and_then([&] { return keep_written(root, "/etc/resolv.conf", files.name_servers); });
    if (!written || !one_id) return written;
    if (!open_in_root(root, apt_directory, O_PATH | O_DIRECTORY).valid()) return {};
    return keep_written(root, apt_file, apt_text);
}

}  // namespace batchai::node

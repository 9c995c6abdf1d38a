// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace batchai::plan {

// What the mountOptions of a job file come to here. They are written for mount(8) or blobfuse:
// "rw", "-o vers=4,hard", "--use-https=true -o attr_timeout=240 -o allow_other".
struct MountOptions {
    bool read_only = false;
    bool no_execute = false;
    // Well-known options that mean nothing here: the site mounts the file server, and what a job
    // sees belongs to its user.
    std::vector<std::string> ignored;
    std::vector<std::string> unknown;
};

[[nodiscard]] MountOptions read_mount_options(const std::optional<std::string>& text);

// For the hint of a refusal: the options that have an effect, and that others are passed over.
[[nodiscard]] std::string_view mount_options_help();

}  // namespace batchai::plan

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/record.hpp"
#include "base/variable.hpp"
#include "image/frozen.hpp"

namespace batchai::plan {

using base::Variable;

struct Plan;

// A directory or file of each node that the container also has, besides what every container needs.
struct HostBind {
    std::string source;  // absolute, on the node
    std::string target;  // absolute, in the container
    bool read_only = false;
    bool optional = false;  // skipped on a node without this source

    bool operator==(const HostBind&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("source", &HostBind::source), field("target", &HostBind::target),
                          field("readOnly", &HostBind::read_only),
                          field("optional", &HostBind::optional)};
    }
};

// The container that every process of the job runs in: the image, and what the job and the site
// make of it.
struct Container : image::FrozenImage {
    std::int64_t shm_bytes = 0;   // size of /dev/shm; 0: use that of the node
    bool ranks_as_root = false;   // ranks run as root in the container, not as the user
    std::vector<HostBind> binds;  // the site's
    bool inject = true;           // the node's libmpi_bridge is mounted in it

    bool operator==(const Container&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("image", &Container::image), field("digest", &Container::digest),
                          field("source", &Container::source), field("root", &Container::root),
                          field("rootIsDirectory", &Container::root_is_directory),
                          field("insecureRegistry", &Container::insecure_registry),
                          field("cacheLimit", &Container::cache_limit).within(0),
                          field("environment", &Container::environment),
                          field("entrypoint", &Container::entrypoint),
                          field("workingDirectory", &Container::working_directory),
                          field("shmBytes", &Container::shm_bytes).within(0),
                          field("ranksAsRoot", &Container::ranks_as_root),
                          field("binds", &Container::binds), field("inject", &Container::inject),
                          // -1: no owner is trusted but the user and root.
                          field("rootOwner", &Container::root_owner).within(-1)};
    }
};

// How a container's environment is made from the one that Slurm brings from the submitting host.
// The planner expands $NAME from this environment and the nodes set it, so both use these
// functions.

// Variables with paths and settings of the submitting host's software. That software is not in the
// container, so the variables are not passed on to it. They are set in a container only if the
// image or the job sets them.
[[nodiscard]] const std::vector<std::string_view>& variables_of_host_software();

// Returns the variables that the image sets. The variables that name the user are left out, because
// the user is the same inside the container as outside. PATH is always set.
[[nodiscard]] std::vector<Variable> image_environment(const Container& container);

// Returns the image that the plan declares to slurmctld; empty for a job without a container.
[[nodiscard]] std::string_view declared_image(const Plan& plan);

// Reads a size as Docker does: a number of bytes, or of 1024, 1024^2 or 1024^3 bytes. The text was
// checked when the file was read, and has at most 15 digits.
[[nodiscard]] std::int64_t memory_bytes(std::string_view text);

}  // namespace batchai::plan

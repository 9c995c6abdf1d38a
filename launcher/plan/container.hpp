// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "job/model.hpp"
#include "plan/plan.hpp"
#include "site/site.hpp"

// How a container's environment is made from the one that Slurm brings from the submitting host.
// The planner expands $NAME from this environment and the nodes set it, so both use these
// functions.

namespace batchai::plan {

// Variables with paths and settings of the submitting host's software. That software is not in the
// container, so the variables are not passed on to it. They are set in a container only if the
// image or the job sets them.
[[nodiscard]] const std::vector<std::string_view>& variables_of_host_software();

// Returns the variables that the image sets. The variables that name the user are left out, because
// the user is the same inside the container as outside. PATH is always set.
[[nodiscard]] std::vector<Variable> image_environment(const Container& container);

// Returns whether the planner has nothing against the name of the image, its registry and its
// credentials, so that the image may be asked for before the job is planned.
[[nodiscard]] bool may_ask_for_image(const job::ContainerSettings& settings,
                                     const site::Site& site);

// Returns the image that the plan declares to slurmctld; empty for a job without a container.
[[nodiscard]] std::string_view declared_image(const Plan& plan);

// Reads a size as Docker does: a number of bytes, or of 1024, 1024^2 or 1024^3 bytes. The text was
// checked when the file was read, and has at most 15 digits.
[[nodiscard]] std::int64_t memory_bytes(std::string_view text);

}  // namespace batchai::plan

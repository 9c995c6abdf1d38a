// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/model.hpp"
#include "plan/findings.hpp"
#include "plan/make.hpp"
#include "plan/paths.hpp"
#include "plan/plan.hpp"
#include "plan/sweep.hpp"
#include "site/site.hpp"

namespace batchai::plan {

// The hint for a secret that is in a key vault.
inline constexpr std::string_view instead_of_key_vault =
    "write \"fromEnv\": \"NAME\" for a variable of your shell, or \"fromFile\": \"~/FILE\" for a "
    "file "
    "that only you can read, in place of the reference";

// The state of one call of make(): its input, and the plan as far as it is made. The functions
// below fill it in this order, and each reports only its own faults.
struct Planning {
    const job::JobSpec& spec;
    const job::PositionTable& positions;
    const site::Site& site;
    const Inputs& inputs;
    Findings findings;
    Scope scope;  // the variables that strings may refer to, as far as they are known
    Plan plan;
    std::vector<Variable> mount_secrets;
    std::optional<Sweep> sweep;

    // Expands `text`, which is at `pointer`, and warns of names that are not defined.
    [[nodiscard]] std::string expand(std::string_view text, std::string_view pointer);
    // Returns whether `bytes` and a terminating zero are more than Linux passes to a program in one
    // argument or variable. If so, reports a fault at `pointer`.
    bool refuse_too_long(std::size_t bytes, std::string_view pointer);
    // Returns whether the expanded text has a parameter of the sweep whose values cannot all be in
    // a path. If so, reports a fault at `pointer`.
    bool refuse_sweep_in_path(std::string_view text, std::string_view pointer);
};

void plan_allocation(Planning& planning);
// Makes the points of a sweep, and the option of Slurm that runs them. Needs the allocation.
void plan_sweep_array(Planning& planning);
// Defines the variables of a sweep.
void plan_sweep_variables(Planning& planning);
// Needs the environment.
void check_sweep_sizes(Planning& planning);
// Plans the node and host directories, and the variables that name them.
void plan_directories(Planning& planning);
void plan_mounts(Planning& planning);
void plan_container(Planning& planning);
// Checks the site's policy. Needs the allocation and the container.
void plan_policy(Planning& planning);
// Returns the image with its registry and tag, or its file or directory, as policies name it.
// `found` is what is known of the image, if it was asked for.
[[nodiscard]] std::string image_name(const job::ContainerSettings& settings,
                                     const std::optional<image::FrozenImage>& found);
// Returns whether jobs may use the image; an empty name is that of a job without a container.
[[nodiscard]] bool policy_allows(const site::Site& site, const std::string& image);
// Plans inputs, outputs, logs and the whole environment. Needs the directories and the mounts.
void plan_environment(Planning& planning);
// Plans the setup task of the job's cluster. Needs the container and the environment.
void plan_node_setup(Planning& planning);
// Needs the allocation and the environment.
void plan_steps(Planning& planning);
// These need the allocation, the mounts and the environment.
void plan_retry(Planning& planning);
void plan_checkpoint(Planning& planning);
void plan_watch(Planning& planning);
// This needs the environment, and plan_steps() needs it.
void plan_software(Planning& planning);
// The same; it also needs the mounts and the container.
void plan_snapshot(Planning& planning);
void plan_notification(Planning& planning);

// Returns the Python of ranks whose job file names none.
[[nodiscard]] std::string usual_interpreter(const Planning& planning);
[[nodiscard]] bool has_python_environment(const Software& software);

// Returns where the job's snapshot has a path of the job file, which is unchanged if there is no
// snapshot or it does not have the path.
[[nodiscard]] std::string in_snapshot(const Planning& planning, const std::string& path);

// The mountVolumes to plan: the job's own, or those of its cluster.
struct VolumeList {
    Planning& planning;
    const job::MountVolumes& volumes;
    MountScope scope = MountScope::job;

    // Reports a fault at `key` of a volume. A volume of the cluster has no place in the job file,
    // so the message names the cluster instead.
    void fault(Finding finding, std::string_view kind, std::size_t index, std::string_view key,
               const std::string& message, std::string hint = {}) const;
    void notice(const std::string& text) const { planning.plan.notices.push_back(text); }
};

// Applies the mountOptions to the mount. Returns false, and reports a fault, if they are refused.
[[nodiscard]] bool apply_mount_options(const VolumeList& list, std::size_t index,
                                       const std::optional<std::string>& options, Mount& mount);

// Each of these plans a volume of a kind that is in a storage account. It becomes a directory of
// the site, or else remote storage, or else a directory in the launcher's default storage. `index`
// is the volume's among those of its kind. mounts.cpp has the other kinds.
void plan_volume(const VolumeList& list, const job::AzureFileShare& share, std::size_t index);
void plan_volume(const VolumeList& list, const job::AzureBlobFileSystem& blob, std::size_t index);

}  // namespace batchai::plan

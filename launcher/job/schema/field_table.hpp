// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "job/schema/field.hpp"

// The field table, which is the only list of a job file's keys. field_table.cpp has the file, its
// properties and what each toolkit runs, field_table_mounts.cpp has mounts and the secrets they
// need, field_table_slurm.cpp has options of sbatch, field_table_retry.cpp has what happens to a
// job that fails, field_table_sweep.cpp has sweeps, and field_table_surroundings.cpp has what is
// set up around it.
namespace batchai::job {

extern const Object job_file_object;    // the whole file; its fields belong to JobSpec
extern const Object properties_object;  // "properties"; its fields belong to JobSpec

extern const Object mount_volumes_object;               // MountVolumes
extern const Object key_vault_secret_reference_object;  // KeyVaultSecretReference

// SlurmSettings. Each field is named after the long option of sbatch that it sets. The flags of
// `job create` and the user's defaults are made from these fields, too. Its refused keys are the
// options that belong to the plan.
extern const Object slurm_object;

extern const Object retry_object;       // RetrySettings
extern const Object checkpoint_object;  // CheckpointSettings
extern const Object watch_object;       // WatchSettings
extern const Object sweep_object;       // SweepSettings

extern const Object software_object;      // SoftwareSettings
extern const Object snapshot_object;      // SnapshotSettings
extern const Object notification_object;  // NotificationSettings

// The most nodes and processes that a file may ask for. The limits are above the largest existing
// cluster and below what a typing error usually produces.
inline constexpr std::int64_t maximum_nodes = 65'536;
inline constexpr std::int64_t maximum_processes = 1'000'000;

}  // namespace batchai::job

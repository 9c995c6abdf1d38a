// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "store/records.hpp"

// Records as JSON text: pretty-printed, keys in a fixed order, "schema" first, one newline at the
// end. Reading refuses another schema, a missing key and a wrong type; `path` is the file's name
// for the message, which says "path:line:column" for broken JSON and names the key otherwise.
// Unknown keys are ignored, so that an older program reads what a newer one wrote. The key fields
// (group, workspace, …) are not in the text: they are the place where the file lies.
namespace batchai::store {

[[nodiscard]] std::string to_json(const Group& group);
[[nodiscard]] std::string to_json(const Workspace& workspace);
[[nodiscard]] std::string to_json(const Experiment& experiment);
[[nodiscard]] std::string to_json(const Cluster& cluster);
[[nodiscard]] std::string to_json(const Job& job);

[[nodiscard]] base::Result<Group> group_from_json(std::string_view text, const std::string& path,
                                                  const std::string& name);
[[nodiscard]] base::Result<Workspace> workspace_from_json(std::string_view text,
                                                          const std::string& path,
                                                          const WorkspaceKey& key);
[[nodiscard]] base::Result<Experiment> experiment_from_json(std::string_view text,
                                                            const std::string& path,
                                                            const ExperimentKey& key);
[[nodiscard]] base::Result<Cluster> cluster_from_json(std::string_view text,
                                                      const std::string& path,
                                                      const ClusterKey& key);
[[nodiscard]] base::Result<Job> job_from_json(std::string_view text, const std::string& path,
                                              const JobKey& key);

}  // namespace batchai::store

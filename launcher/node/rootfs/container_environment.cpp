// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/container_environment.hpp"

#include <algorithm>
#include <string_view>

#include "plan/image_environment.hpp"

namespace batchai::node {

namespace {

bool has(const std::vector<plan::Variable>& variables, std::string_view name) {
    return std::any_of(variables.begin(), variables.end(),
                       [&](const plan::Variable& variable) { return variable.name == name; });
}

}  // namespace

TaskEnvironment container_environment(const plan::Container& container,
                                      const std::vector<plan::Variable>& devices,
                                      const std::vector<plan::Variable>& job) {
    TaskEnvironment made;
    // The memory that PMIx's server would share, and munge's socket, are not in the container.
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

}  // namespace batchai::node

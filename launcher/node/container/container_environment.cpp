// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/container/container_environment.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace batchai::node {

namespace {

// Paths and settings of the submitting host's software, which is not in the container.
constexpr std::array<std::string_view, 24> of_the_host{"LD_LIBRARY_PATH",
                                                       "LD_PRELOAD",
                                                       "LD_AUDIT",
                                                       "PYTHONHOME",
                                                       "PYTHONPATH",
                                                       "VIRTUAL_ENV",
                                                       "CONDA_PREFIX",
                                                       "CONDA_DEFAULT_ENV",
                                                       "CONDA_EXE",
                                                       "PERL5LIB",
                                                       "PERLLIB",
                                                       "BASH_ENV",
                                                       "ENV",
                                                       "MODULEPATH",
                                                       "MODULESHOME",
                                                       "LOADEDMODULES",
                                                       "_LMFILES_",
                                                       "LMOD_CMD",
                                                       "OPAL_PREFIX",
                                                       "LIBRARY_PATH",
                                                       "CPATH",
                                                       "LOCPATH",
                                                       "GIO_MODULE_DIR",
                                                       "PMIX_INSTALL_PREFIX"};

// The user is the same inside as outside.
constexpr std::array<std::string_view, 3> of_the_user{"HOME", "USER", "LOGNAME"};

constexpr std::string_view usual_path =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

bool has(const std::vector<plan::Variable>& variables, std::string_view name) {
    return std::any_of(variables.begin(), variables.end(),
                       [&](const plan::Variable& variable) { return variable.name == name; });
}

}  // namespace

TaskEnvironment container_environment(const plan::Container& container,
                                      const std::vector<plan::Variable>& devices,
                                      const std::vector<plan::Variable>& job) {
    TaskEnvironment made;
    if (!has(container.environment, "PATH")) made.set.push_back({"PATH", std::string(usual_path)});
    // The memory that PMIx's server would share, and munge's socket, are not in the container.
    made.set.push_back({"PMIX_MCA_gds", "hash"});
    made.set.push_back({"PMIX_MCA_psec", "native"});
    for (const plan::Variable& variable : container.environment) {
        if (std::find(of_the_user.begin(), of_the_user.end(), variable.name) == of_the_user.end())
            made.set.push_back(variable);
    }
    made.set.insert(made.set.end(), devices.begin(), devices.end());
    made.set.insert(made.set.end(), job.begin(), job.end());
    for (const std::string_view name : of_the_host) {
        if (!has(made.set, name)) made.unset.emplace_back(name);
    }
    return made;
}

}  // namespace batchai::node

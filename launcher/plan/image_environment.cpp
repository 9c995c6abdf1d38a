// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/image_environment.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

namespace batchai::plan {

namespace {

constexpr std::array<std::string_view, 3> of_the_user{"HOME", "USER", "LOGNAME"};

constexpr std::string_view usual_path =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

}  // namespace

const std::vector<std::string_view>& variables_of_host_software() {
    static const std::vector<std::string_view> names{"LD_LIBRARY_PATH",
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
    return names;
}

std::vector<Variable> image_environment(const Container& container) {
    const auto& of_image = container.environment;
    std::vector<Variable> made;
    const bool has_path =
        std::any_of(of_image.begin(), of_image.end(),
                    [](const Variable& variable) { return variable.name == "PATH"; });
    if (!has_path) made.push_back({"PATH", std::string(usual_path)});
    std::copy_if(of_image.begin(), of_image.end(), std::back_inserter(made),
                 [](const Variable& variable) {
                     return std::find(of_the_user.begin(), of_the_user.end(), variable.name) ==
                            of_the_user.end();
                 });
    return made;
}

}  // namespace batchai::plan

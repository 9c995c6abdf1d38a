// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/paths.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

constexpr std::string_view software_key = "/properties/software";

// Returns a directory that the job's processes see, or an empty string after it has reported a
// fault.
std::string directory(Planning& planning, std::string_view key, const std::string& text) {
    const std::string pointer = fmt::format("{}/{}", software_key, key);
    std::string path = normalized(planning.expand(below_home(text, planning.inputs.home), pointer));
    if (path.starts_with('/') && !has_parent_component(path)) return path;
    planning.findings.add(
        Finding::bad_software, pointer,
        fmt::format("must be an absolute path without \"..\", but \"{}\" expands to \"{}\"", text,
                    path),
        "begin it with / or ~/, or with a mount such as $AZ_BATCHAI_JOB_MOUNT_ROOT/myshare");
    return {};
}

// The variables of environmentVariables replace what a module has set, and lists are not joined.
void warn_of_replaced_lists(Planning& planning) {
    constexpr std::array<std::string_view, 4> lists{"PATH", "LD_LIBRARY_PATH", "PYTHONPATH",
                                                    "MODULEPATH"};
    const auto& variables = planning.spec.environment_variables;
    for (std::size_t i = 0; i < variables.size(); ++i) {
        if (std::find(lists.begin(), lists.end(), variables[i].name) == lists.end()) continue;
        planning.findings.add(
            Finding::replaces_software, fmt::format("/properties/environmentVariables/{}", i),
            fmt::format("{} replaces the value that \"software\" sets", variables[i].name),
            "leave it out, or set it in a module or in the command line");
    }
}

// Returns the interpreter that the job file names, if it names one.
std::optional<std::string> named_interpreter(const job::Toolkit& toolkit) {
    return std::visit(
        [](const auto& settings) -> std::optional<std::string> {
            if constexpr (requires { settings.python_interpreter_path; })
                return settings.python_interpreter_path;
            return std::nullopt;
        },
        toolkit);
}

}  // namespace

std::string usual_interpreter(const Planning& planning) {
    // The site's may be an absolute path, which would pass the environment by.
    const bool environment =
        planning.plan.software && has_python_environment(*planning.plan.software);
    return environment ? "python" : planning.site.python_interpreter;
}

bool has_python_environment(const Software& software) {
    return !software.conda_environment.empty() || !software.conda_prefix.empty() ||
           !software.venv.empty() || !software.uv_project.empty();
}

void plan_software(Planning& planning) {
    if (!planning.spec.software) return;
    const job::SoftwareSettings& wanted = *planning.spec.software;
    Software& software = planning.plan.software.emplace();
    software.modules = wanted.modules;
    for (std::size_t i = 0; i < wanted.module_paths.size(); ++i)
        software.module_paths.push_back(
            directory(planning, fmt::format("modulePaths/{}", i), wanted.module_paths[i]));
    software.purge = wanted.purge;
    if (wanted.conda && wanted.conda->environment)
        software.conda_environment = *wanted.conda->environment;
    if (wanted.conda && wanted.conda->prefix)
        software.conda_prefix = directory(planning, "conda/prefix", *wanted.conda->prefix);
    if (wanted.venv) software.venv = directory(planning, "venv", *wanted.venv);
    if (wanted.uv) {
        software.uv_project = directory(planning, "uv/project", wanted.uv->project);
        software.uv_extras = wanted.uv->extras;
        software.uv_groups = wanted.uv->groups;
    }
    software.seconds = static_cast<int>(wanted.time_limit.count());
    const auto interpreter = named_interpreter(planning.spec.toolkit);
    software.python =
        interpreter ? planning.scope.expand(*interpreter).text : usual_interpreter(planning);
    if (interpreter && has_python_environment(software) &&
        software.python.find('/') != std::string::npos)
        planning.plan.notices.push_back(
            fmt::format("the ranks run {}, as \"pythonInterpreterPath\" says, and not the Python "
                        "of \"software\"",
                        software.python));
    warn_of_replaced_lists(planning);
}

}  // namespace batchai::plan

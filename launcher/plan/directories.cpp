// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "plan/container.hpp"
#include "plan/elastic.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"
#include "plan/tensorflow.hpp"
#include "record/job_files.hpp"

namespace batchai::plan {

namespace {

// Enough digits of the UUID to tell a user's jobs apart. The path must stay short, because Open MPI
// and UCX put sockets below it and the name of a socket has at most 107 bytes.
constexpr std::size_t digits_in_paths = 12;

constexpr std::size_t longest_path = 4095;

std::string short_id(std::string_view uuid) {
    std::string digits(uuid);
    digits.erase(std::remove(digits.begin(), digits.end(), '-'), digits.end());
    return digits.substr(0, digits_in_paths);
}

void define(Planning& planning, std::string name, std::string value) {
    planning.scope.set(name, value);
    planning.plan.environment.push_back({std::move(name), std::move(value)});
}

std::string_view mount_target_root(const Planning& planning, const Mount& mount) {
    const Directories& directories = planning.plan.directories;
    return mount.scope == MountScope::job ? directories.job_mount_root : directories.mount_root;
}

std::string mounted_paths(const Planning& planning) {
    std::vector<std::string> paths;
    for (const Mount& mount : planning.plan.mounts)
        paths.push_back(fmt::format("{}/{}",
                                    mount.scope == MountScope::job ? "$AZ_BATCHAI_JOB_MOUNT_ROOT"
                                                                   : "$AZ_BATCHAI_MOUNT_ROOT",
                                    mount.target));
    if (paths.empty()) return "the job mounts nothing";
    return fmt::format("the job mounts {}", fmt::join(paths, ", "));
}

bool below_mount_root(const Planning& planning, std::string_view path) {
    const Directories& directories = planning.plan.directories;
    return is_within(path, directories.job_mount_root) || is_within(path, directories.mount_root);
}

bool on_mount(const Planning& planning, std::string_view path) {
    const auto& mounts = planning.plan.mounts;
    return std::any_of(mounts.begin(), mounts.end(), [&](const Mount& mount) {
        const auto target = fmt::format("{}/{}", mount_target_root(planning, mount), mount.target);
        return is_within(path, target);
    });
}

// Returns the normalized path of a directory that the job writes to, or an empty string after it
// has reported a fault.
std::string absolute_path(Planning& planning, std::string_view key, std::string_view text,
                          std::string_view pointer) {
    std::string path = normalized(planning.expand(text, pointer));
    if (text.size() > longest_path || path.size() > longest_path) {
        planning.findings.add(Finding::bad_path, pointer,
                              fmt::format("\"{}\" is longer than the {} bytes of the longest path",
                                          key, longest_path));
        return {};
    }
    if (!path.starts_with('/')) {
        planning.findings.add(
            Finding::bad_path, pointer,
            fmt::format("\"{}\" must be an absolute path, but \"{}\" expands to \"{}\"", key, text,
                        path),
            "start it with a mount, such as $AZ_BATCHAI_JOB_MOUNT_ROOT/myshare");
        return {};
    }
    if (has_parent_component(path)) {
        planning.findings.add(
            Finding::bad_path, pointer,
            fmt::format("\"{}\" must not have \"..\" components: \"{}\"", key, text),
            "write the directory that is meant");
        return {};
    }
    return path;
}

void plan_logs(Planning& planning) {
    constexpr std::string_view pointer = "/properties/stdOutErrPathPrefix";
    Plan& plan = planning.plan;
    const std::string& text = planning.spec.std_out_err_path_prefix;
    const std::string prefix = absolute_path(planning, "stdOutErrPathPrefix", text, pointer);
    if (prefix.empty()) return;
    plan.directories.stdouterr =
        normalized(fmt::format("{}/{}/stdouterr", prefix, plan.identity.path_segment()));
    plan.directories.stdouterr_host = plan.host_path(plan.directories.stdouterr).value_or("");
    if (const auto place = plan.place_of(plan.directories.stdouterr);
        place.mount != nullptr && place.mount->remote) {
        // slurmstepd writes the logs from outside the job's mounts. They are therefore in the job's
        // directory while the job runs, where they can also be followed.
        plan.directories.stdouterr_host =
            record::JobFiles(plan.directories.job_directory).stdouterr().string();
        plan.notices.push_back(
            fmt::format("the logs are in {} while the job runs, and are copied to {} when it ends",
                        plan.directories.stdouterr_host, place.mount->name));
    }
    define(planning, "AZ_BATCHAI_STDOUTERR_DIR", plan.directories.stdouterr);
    if (below_mount_root(planning, prefix) && !on_mount(planning, prefix)) {
        planning.findings.add(Finding::nothing_mounted, pointer,
                              fmt::format("nothing is mounted at \"stdOutErrPathPrefix\" {}", text),
                              mounted_paths(planning));
    } else if (plan.directories.stdouterr_host.empty()) {
        plan.notices.push_back(
            fmt::format("{} is local to each node, so the logs cannot be listed or streamed and "
                        "are deleted when "
                        "the job ends; set stdOutErrPathPrefix to a mounted directory to keep them",
                        text));
    }
}

void plan_input(Planning& planning, std::size_t index) {
    const job::InputDirectory& input = planning.spec.input_directories[index];
    const auto pointer = fmt::format("/properties/inputDirectories/{}/path", index);
    define(planning, "AZ_BATCHAI_INPUT_" + input.id, planning.expand(input.path, pointer));
}

void plan_output(Planning& planning, std::size_t index) {
    Plan& plan = planning.plan;
    const job::OutputDirectory& output = planning.spec.output_directories[index];
    const auto pointer = fmt::format("/properties/outputDirectories/{}/pathPrefix", index);
    const std::string prefix = absolute_path(planning, "pathPrefix", output.path_prefix, pointer);
    if (prefix.empty()) return;
    std::string path = prefix;
    if (output.create_new) {
        const auto suffix_pointer =
            fmt::format("/properties/outputDirectories/{}/pathSuffix", index);
        const std::string suffix =
            normalized(planning.expand(output.path_suffix.value_or(""), suffix_pointer));
        if (has_parent_component(suffix)) {
            planning.findings.add(
                Finding::bad_path, suffix_pointer,
                fmt::format("\"pathSuffix\" must not have \"..\" components: \"{}\"", suffix),
                "write a directory below the job's outputs");
            return;
        }
        path = normalized(
            fmt::format("{}/{}/outputs/{}", prefix, plan.identity.path_segment(), suffix));
    }
    if (below_mount_root(planning, prefix) && !on_mount(planning, prefix)) {
        planning.findings.add(
            Finding::output_not_mounted, pointer,
            fmt::format("nothing is mounted at {}: output \"{}\" stays on the nodes and is deleted "
                        "when the job ends",
                        output.path_prefix, output.id),
            mounted_paths(planning));
    }
    define(planning, "AZ_BATCHAI_OUTPUT_" + output.id, path);
    plan.outputs.push_back({output.id, path, plan.host_path(path).value_or(""), output.create_new});
}

// Paths may refer to the user's variables, and those may refer to inputs, outputs and the log
// directory. This first pass puts into the scope every variable whose value refers to no such
// directory. It reports nothing; plan_user_variables() reports the faults.
void offer_user_variables(Planning& planning) {
    for (const job::EnvironmentVariable& variable : planning.spec.environment_variables) {
        Expanded value = planning.scope.expand(variable.value);
        if (value.undefined.empty() && !value.too_long)
            planning.scope.set(variable.name, std::move(value.text));
    }
}

void plan_user_variables(Planning& planning) {
    const auto& variables = planning.spec.environment_variables;
    for (std::size_t i = 0; i < variables.size(); ++i) {
        const auto pointer = fmt::format("/properties/environmentVariables/{}/value", i);
        const std::string value = planning.expand(variables[i].value, pointer);
        if (!planning.refuse_too_long(variables[i].name.size() + value.size() + 1, pointer))
            define(planning, variables[i].name, value);
    }
}

// Reports a variable whose value an error complains of.
void refuse_variable(Planning& planning, Finding finding, const base::Error& error) {
    const auto& variables = planning.spec.environment_variables;
    std::string pointer;  // empty for a variable of the site
    for (std::size_t i = 0; i < variables.size(); ++i) {
        if (variables[i].name == error.where)
            pointer = fmt::format("/properties/environmentVariables/{}/value", i);
    }
    planning.findings.add(finding, pointer, error.what);
}

void check_variables(Planning& planning) {
    const Plan& plan = planning.plan;
    const auto elastic = elastic_of(plan.environment, plan.allocation.nodes);
    if (!elastic) refuse_variable(planning, Finding::bad_elastic_setting, elastic.error());
    if (!std::holds_alternative<job::TensorFlowSettings>(planning.spec.toolkit)) return;
    const auto master = tensorflow_master(plan.environment);
    if (!master) refuse_variable(planning, Finding::bad_tensorflow_config, master.error());
}

void offer_login_environment(Planning& planning) {
    const bool in_container = planning.spec.container_settings && !planning.inputs.ignore_container;
    const auto& kept_out = variables_of_host_software();
    for (const auto& [name, value] : planning.inputs.login_environment) {
        if (in_container && std::find(kept_out.begin(), kept_out.end(), name) != kept_out.end())
            continue;
        planning.scope.set(name, value);
    }
}

void plan_secrets(Planning& planning) {
    const auto& secrets = planning.spec.secrets;
    for (std::size_t i = 0; i < secrets.size(); ++i) {
        planning.plan.secret_names.push_back(secrets[i].name);
        if (secrets[i].value) {
            planning.refuse_too_long(secrets[i].name.size() + secrets[i].value->size() + 1,
                                     fmt::format("/properties/secrets/{}/value", i));
            continue;
        }
        if (!secrets[i].value_secret_reference) continue;
        planning.findings.add(
            Finding::secret_reference,
            fmt::format("/properties/secrets/{}/valueSecretReference", i),
            fmt::format("secret \"{}\" is in a key vault, which this program cannot open",
                        secrets[i].name),
            std::string(instead_of_key_vault));
    }
}

// Defines the backend under torch's own name for it.
void plan_torch_backend(Planning& planning, const job::PyTorchSettings& settings) {
    if (!settings.communication_backend) return;
    const auto backend = *settings.communication_backend;
    define(planning, "AZ_BATCHAI_PYTORCH_BACKEND",
           base::lower(job::communication_backends.at(static_cast<std::size_t>(backend))));
    if (backend == job::CommunicationBackend::tcp)
        planning.plan.notices.emplace_back(
            "\"communicationBackend\" is \"TCP\", which PyTorch has not had since its version 1.0; "
            "\"Gloo\" replaces it");
}

}  // namespace

std::string Planning::expand(std::string_view text, std::string_view pointer) {
    Expanded expanded = scope.expand(text);
    if (expanded.too_long) {
        refuse_too_long(expanded.text.size(), pointer);
        return {};
    }
    // These two are only texts for the job; all others lead to a place.
    const bool is_path = !pointer.starts_with("/properties/environmentVariables/") &&
                         !pointer.starts_with("/properties/inputDirectories/");
    if (is_path && refuse_sweep_in_path(expanded.text, pointer)) return {};
    // The variables of the image are not known before the registry has been asked, so an undefined
    // name gives no warning until then.
    if (plan.container && !inputs.image) return std::move(expanded.text);
    for (const std::string& name : expanded.undefined)
        findings.add(Finding::undefined_variable, pointer,
                     fmt::format("${} is not known when the job is submitted and stands for an "
                                 "empty text",
                                 name),
                     "define it in \"environmentVariables\", or use it in a command line, which "
                     "the job's shell expands");
    return std::move(expanded.text);
}

bool Planning::refuse_too_long(std::size_t bytes, std::string_view pointer) {
    if (bytes < longest_argument) return false;
    findings.add(
        Finding::too_long, pointer,
        fmt::format("is too long: Linux passes at most {} bytes in one argument, or in one "
                    "variable including its name",
                    longest_argument - 1),
        "put it into a file on a mounted directory");
    return true;
}

void plan_directories(Planning& planning) {
    const Inputs& inputs = planning.inputs;
    Directories& directories = planning.plan.directories;
    directories.node_root =
        normalized(fmt::format("{}/batchai-{}", planning.site.node_directory, inputs.user_id));
    directories.job_temp =
        fmt::format("{}/{}", directories.node_root, short_id(inputs.identity.uuid));
    directories.mount_root = directories.job_temp + "/cluster-mounts";
    directories.job_mount_root = directories.job_temp + "/mounts";
    directories.job_directory = normalized(inputs.job_directory);
    directories.plan_directory = directories.job_directory;
    const record::JobFiles files(directories.job_directory);
    directories.shared_job_temp = files.shared().string();

    offer_login_environment(planning);
    planning.scope.set("HOME", inputs.home);
    planning.scope.set("USER", inputs.user_name);
    define(planning, "AZ_BATCHAI_MOUNT_ROOT", directories.mount_root);
    define(planning, "AZ_BATCHAI_JOB_MOUNT_ROOT", directories.job_mount_root);
    define(planning, "AZ_BATCHAI_JOB_TEMP", directories.job_temp);
    define(planning, "AZ_BATCHAI_JOB_TEMP_DIR", directories.job_temp);
    define(planning, "AZ_BATCHAI_SHARED_JOB_TEMP", directories.shared_job_temp);
    define(planning, "AZ_BATCHAI_MPI_HOST_FILE", files.host_file().string());
    define(planning, "AZ_BATCHAI_JOB_NAME", inputs.identity.job);
    if (planning.spec.snapshot)
        define(planning, "AZ_BATCHAI_JOB_SNAPSHOT", files.snapshot().string());
    if (!inputs.identity.cluster.empty())
        define(planning, "AZ_BATCHAI_CLUSTER_NAME", inputs.identity.cluster);
    if (const auto* torch = std::get_if<job::PyTorchSettings>(&planning.spec.toolkit))
        plan_torch_backend(planning, *torch);
}

void plan_environment(Planning& planning) {
    plan_sweep_variables(planning);
    for (const auto& [name, value] : planning.site.environment)
        planning.scope.set(name, value);
    Scope without_offers = planning.scope;
    offer_user_variables(planning);
    for (std::size_t i = 0; i < planning.spec.input_directories.size(); ++i)
        plan_input(planning, i);
    plan_logs(planning);
    for (std::size_t i = 0; i < planning.spec.output_directories.size(); ++i)
        plan_output(planning, i);
    // Restores the scope from before the user's variables were offered, and adds the variables that
    // were planned since. Otherwise PATH=/opt/bin:$PATH would refer to itself.
    for (const Variable& variable : planning.plan.environment)
        without_offers.set(variable.name, variable.value);
    planning.scope = std::move(without_offers);
    for (const auto& [name, value] : planning.site.environment)
        planning.plan.environment.push_back({name, value});
    plan_user_variables(planning);
    check_variables(planning);
    plan_secrets(planning);
}

}  // namespace batchai::plan

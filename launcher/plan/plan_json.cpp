// SPDX-License-Identifier: GPL-2.0-or-later
#include <jsoncons/json.hpp>

#include "plan/json_names.hpp"
#include "plan/plan.hpp"

namespace batchai::plan {

namespace {

using Json = jsoncons::ojson;

Json object() {
    return Json(jsoncons::json_object_arg);
}

template <typename T, typename Convert>
Json array(const std::vector<T>& values, Convert convert) {
    Json out(jsoncons::json_array_arg);
    for (const T& value : values)
        out.push_back(convert(value));
    return out;
}

Json identity_json(const Identity& identity) {
    Json out = object();
    out["subscription"] = identity.subscription;
    out["resourceGroup"] = identity.resource_group;
    out["workspace"] = identity.workspace;
    out["experiment"] = identity.experiment;
    out["job"] = identity.job;
    out["cluster"] = identity.cluster;
    out["uuid"] = identity.uuid;
    return out;
}

Json allocation_json(const Allocation& allocation) {
    Json out = object();
    out["nodes"] = allocation.nodes;
    out["processes"] = allocation.processes;
    out["processesPerNode"] = allocation.processes_per_node;
    out["cpusPerProcess"] = allocation.cpus_per_process;
    out["exclusive"] = allocation.exclusive;
    out["partition"] = allocation.partition;
    out["constraint"] = allocation.constraint;
    out["gres"] = allocation.gres;
    out["account"] = allocation.account;
    out["qos"] = allocation.qos;
    out["nice"] = allocation.nice;
    out["timeLimitMinutes"] = static_cast<std::int64_t>(allocation.time_limit.count());
    out["extraOptions"] = allocation.extra_options;
    return out;
}

Json directories_json(const Directories& directories) {
    Json out = object();
    out["nodeRoot"] = directories.node_root;
    out["jobTemp"] = directories.job_temp;
    out["mountRoot"] = directories.mount_root;
    out["jobMountRoot"] = directories.job_mount_root;
    out["jobDirectory"] = directories.job_directory;
    out["sharedJobTemp"] = directories.shared_job_temp;
    out["stdouterr"] = directories.stdouterr;
    out["stdouterrHost"] = directories.stdouterr_host;
    return out;
}

Json variable_json(const Variable& variable) {
    Json out = object();
    out["name"] = variable.name;
    out["value"] = variable.value;
    return out;
}

Json remote_json(const RemoteVolume& remote) {
    Json out = object();
    out["backend"] = remote.backend;
    out["path"] = remote.path;
    out["options"] = array(remote.options, variable_json);
    out["secretOption"] = remote.secret_option;
    out["secretName"] = remote.secret_name;
    out["credentialsFile"] = remote.credentials_file;
    out["fileMode"] = remote.file_mode;
    out["directoryMode"] = remote.directory_mode;
    return out;
}

Json mount_json(const Mount& mount) {
    Json out = object();
    out["kind"] = mount.kind;
    out["name"] = mount.name;
    out["source"] = mount.source;
    out["target"] = mount.target;
    out["scope"] = std::string(name_of(scope_names, mount.scope));
    out["readOnly"] = mount.read_only;
    out["createSource"] = mount.create_source;
    out["sourceRoot"] = mount.source_root;
    out["noExecute"] = mount.no_execute;
    out["remote"] = mount.remote ? remote_json(*mount.remote) : Json::null();
    out["mountSeconds"] = mount.mount_seconds;
    out["flushSeconds"] = mount.flush_seconds;
    return out;
}

Json output_json(const OutputDirectory& output) {
    Json out = object();
    out["id"] = output.id;
    out["path"] = output.path;
    out["pathHost"] = output.path_host;
    out["create"] = output.create;
    return out;
}

Json bind_json(const HostBind& bind) {
    Json out = object();
    out["source"] = bind.source;
    out["target"] = bind.target;
    out["readOnly"] = bind.read_only;
    out["optional"] = bind.optional;
    return out;
}

Json container_json(const Container& container) {
    Json out = object();
    out["image"] = container.image;
    out["digest"] = container.digest;
    out["source"] = container.source;
    out["root"] = container.root;
    out["rootIsDirectory"] = container.root_is_directory;
    out["environment"] = array(container.environment, variable_json);
    out["entrypoint"] = container.entrypoint;
    out["workingDirectory"] = container.working_directory;
    out["shmBytes"] = container.shm_bytes;
    out["ranksAsRoot"] = container.ranks_as_root;
    out["binds"] = array(container.binds, bind_json);
    out["inject"] = container.inject;
    return out;
}

Json step_json(const Step& step) {
    Json out = object();
    out["kind"] = std::string(name_of(step_names, step.kind));
    out["command"] = step.command;
    out["processes"] = step.processes;
    out["processesPerNode"] = step.processes_per_node;
    out["pmix"] = step.pmix;
    out["stdoutName"] = step.stdout_name;
    out["stderrName"] = step.stderr_name;
    return out;
}

}  // namespace

std::string to_json(const Plan& plan) {
    Json out = object();
    out["schema"] = std::string(plan_schema);
    out["identity"] = identity_json(plan.identity);
    out["toolType"] = plan.tool_type;
    out["allocation"] = allocation_json(plan.allocation);
    out["directories"] = directories_json(plan.directories);
    out["mounts"] = array(plan.mounts, mount_json);
    out["container"] = plan.container ? container_json(*plan.container) : Json::null();
    out["outputs"] = array(plan.outputs, output_json);
    out["environment"] = array(plan.environment, variable_json);
    out["secretNames"] = plan.secret_names;
    out["steps"] = array(plan.steps, step_json);
    out["notices"] = plan.notices;
    // Fixed here, so that another release's defaults don't change a plan's digest.
    const auto layout = jsoncons::json_options{}
                            .indent_size(2)
                            .spaces_around_comma(jsoncons::spaces_option::no_spaces)
                            .array_array_line_splits(jsoncons::line_split_kind::multi_line)
                            .array_object_line_splits(jsoncons::line_split_kind::multi_line)
                            .object_array_line_splits(jsoncons::line_split_kind::multi_line)
                            .object_object_line_splits(jsoncons::line_split_kind::multi_line);
    std::string text;
    out.dump_pretty(text, layout);
    return text + "\n";
}

}  // namespace batchai::plan

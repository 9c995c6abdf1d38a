// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/serialize.hpp"

#include <utility>

#include <fmt/format.h>
#include <jsoncons/json.hpp>

namespace batchai::store {

namespace {

using Json = jsoncons::ojson;

// Thrown inside this file only; read() turns it into a value.
struct BadRecord {
    std::string what;
};

Json object(std::string_view schema) {
    Json out(jsoncons::json_object_arg);
    out["schema"] = std::string(schema);
    return out;
}

std::string print(const Json& json) {
    jsoncons::json_options options;
    options.indent_size(2);
    std::string text;
    json.dump_pretty(text, options);
    return text + "\n";
}

Json tags_json(const std::optional<Tags>& tags) {
    if (!tags) return Json::null();
    Json out(jsoncons::json_object_arg);
    for (const auto& [name, value] : *tags)
        out[name] = value;
    return out;
}

const Json& member(const Json& json, std::string_view key) {
    const auto found = json.find(key);
    if (found == json.object_range().end())
        throw BadRecord{fmt::format("the key \"{}\" is missing", key)};
    return found->value();
}

std::string string_in(const Json& json, std::string_view key) {
    const Json& value = member(json, key);
    if (!value.is_string()) throw BadRecord{fmt::format("\"{}\" is not a string", key)};
    return value.as<std::string>();
}

int count_in(const Json& json, std::string_view key) {
    const Json& value = member(json, key);
    if (!value.is<int>() || !value.is_number() || value.as<int>() < 0)
        throw BadRecord{fmt::format("\"{}\" is not a whole number from 0", key)};
    return value.as<int>();
}

base::Time time_in(const Json& json, std::string_view key) {
    const auto time = base::from_iso8601(string_in(json, key));
    if (!time) throw BadRecord{fmt::format("\"{}\" is not a time", key)};
    return *time;
}

std::optional<base::Time> optional_time_in(const Json& json, std::string_view key) {
    if (member(json, key).is_null()) return std::nullopt;
    return time_in(json, key);
}

std::optional<Tags> tags_in(const Json& json) {
    const Json& value = member(json, "tags");
    if (value.is_null()) return std::nullopt;
    if (!value.is_object()) throw BadRecord{"\"tags\" is not an object"};
    Tags tags;
    for (const auto& entry : value.object_range()) {
        if (!entry.value().is_string())
            throw BadRecord{fmt::format("\"tags.{}\" is not a string", entry.key())};
        tags.emplace(entry.key(), entry.value().as<std::string>());
    }
    return tags;
}

Json parse(std::string_view text, std::string_view schema) {
    jsoncons::json_options options;
    options.max_nesting_depth(64);
    Json json = Json::parse(jsoncons::string_view(text.data(), text.size()), options);
    if (!json.is_object()) throw BadRecord{"the record is not an object"};
    const std::string found = string_in(json, "schema");
    if (found != schema)
        throw BadRecord{
            fmt::format("\"schema\" is \"{}\", this program reads \"{}\"", found, schema)};
    return json;
}

constexpr const char* damaged_hint = "restore the file, or delete the resource and create it anew";

// Runs `make` on the parsed text; everything that it throws becomes an error that names the file.
template <typename Make>
auto read(std::string_view text, const std::string& path, std::string_view schema, Make make)
    -> base::Result<decltype(make(std::declval<const Json&>()))> {
    try {
        return make(parse(text, schema));
    } catch (const BadRecord& bad) {
        return base::fail("damaged record: " + bad.what, path, damaged_hint);
    } catch (const jsoncons::ser_error& error) {
        return base::fail(fmt::format("damaged record: {}", error.code().message()),
                          fmt::format("{}:{}:{}", path, error.line(), error.column()),
                          damaged_hint);
    } catch (const std::exception& error) {
        return base::fail(fmt::format("damaged record: {}", error.what()), path, damaged_hint);
    }
}

Json scale_json(const Cluster& cluster) {
    Json out(jsoncons::json_object_arg);
    if (cluster.manual) {
        Json manual(jsoncons::json_object_arg);
        manual["targetNodeCount"] = cluster.manual->target_node_count;
        manual["nodeDeallocationOption"] =
            std::string(to_string(cluster.manual->node_deallocation_option));
        out["manual"] = std::move(manual);
    }
    if (cluster.auto_scale) {
        Json automatic(jsoncons::json_object_arg);
        automatic["minimumNodeCount"] = cluster.auto_scale->minimum_node_count;
        automatic["maximumNodeCount"] = cluster.auto_scale->maximum_node_count;
        automatic["initialNodeCount"] = cluster.auto_scale->initial_node_count;
        out["autoScale"] = std::move(automatic);
    }
    return out;
}

void scale_in(const Json& json, Cluster& cluster) {
    const Json& scale = member(json, "scaleSettings");
    if (!scale.is_object()) throw BadRecord{"\"scaleSettings\" is not an object"};
    cluster.manual.reset();
    if (scale.contains("manual") == scale.contains("autoScale"))
        throw BadRecord{"\"scaleSettings\" must hold exactly one of \"manual\" and \"autoScale\""};
    const Json& inner = member(scale, scale.contains("manual") ? "manual" : "autoScale");
    if (!inner.is_object()) throw BadRecord{"\"scaleSettings\" does not hold an object"};
    if (scale.contains("autoScale")) {
        cluster.auto_scale =
            AutoScale{count_in(inner, "minimumNodeCount"), count_in(inner, "maximumNodeCount"),
                      count_in(inner, "initialNodeCount")};
        return;
    }
    const auto option = node_deallocation_option(string_in(inner, "nodeDeallocationOption"));
    if (!option) throw BadRecord{"\"nodeDeallocationOption\" is not one of its values"};
    cluster.manual = ManualScale{count_in(inner, "targetNodeCount"), *option};
}

constexpr std::string_view group_schema = "batchai-group/v1";
constexpr std::string_view workspace_schema = "batchai-workspace/v1";
constexpr std::string_view experiment_schema = "batchai-experiment/v1";
constexpr std::string_view cluster_schema = "batchai-cluster/v1";
constexpr std::string_view job_schema = "batchai-job/v1";

}  // namespace

std::string_view to_string(NodeDeallocationOption option) {
    switch (option) {
        case NodeDeallocationOption::requeue:
            return "requeue";
        case NodeDeallocationOption::terminate:
            return "terminate";
        case NodeDeallocationOption::wait_for_job_completion:
            return "waitforjobcompletion";
    }
    return "requeue";
}

std::string_view to_string(VmPriority priority) {
    return priority == VmPriority::dedicated ? "dedicated" : "lowpriority";
}

std::optional<NodeDeallocationOption> node_deallocation_option(std::string_view text) {
    for (const auto option : {NodeDeallocationOption::requeue, NodeDeallocationOption::terminate,
                              NodeDeallocationOption::wait_for_job_completion})
        if (text == to_string(option)) return option;
    return std::nullopt;
}

std::optional<VmPriority> vm_priority(std::string_view text) {
    for (const auto priority : {VmPriority::dedicated, VmPriority::low_priority})
        if (text == to_string(priority)) return priority;
    return std::nullopt;
}

std::string to_json(const Group& group) {
    Json out = object(group_schema);
    out["location"] = group.location;
    out["tags"] = tags_json(group.tags);
    out["creationTime"] = base::to_iso8601(group.creation_time);
    return print(out);
}

std::string to_json(const Workspace& workspace) {
    Json out = object(workspace_schema);
    out["location"] = workspace.location;
    out["tags"] = tags_json(workspace.tags);
    out["creationTime"] = base::to_iso8601(workspace.creation_time);
    return print(out);
}

std::string to_json(const Experiment& experiment) {
    Json out = object(experiment_schema);
    out["creationTime"] = base::to_iso8601(experiment.creation_time);
    return print(out);
}

std::string to_json(const Cluster& cluster) {
    Json out = object(cluster_schema);
    out["vmSize"] = cluster.vm_size;
    out["vmPriority"] = std::string(to_string(cluster.vm_priority));
    out["scaleSettings"] = scale_json(cluster);
    out["adminUserName"] = cluster.admin_user_name;
    out["adminUserSshPublicKey"] = cluster.admin_user_ssh_public_key;
    out["propertiesJson"] = cluster.properties_json;
    out["creationTime"] = base::to_iso8601(cluster.creation_time);
    out["allocationStateTransitionTime"] =
        base::to_iso8601(cluster.allocation_state_transition_time);
    return print(out);
}

std::string to_json(const Job& job) {
    Json out = object(job_schema);
    out["uuid"] = job.uuid;
    out["subscription"] = job.subscription;
    out["cluster"] = job.cluster;
    out["toolType"] = job.tool_type;
    out["nodeCount"] = job.node_count;
    out["propertiesJson"] = job.properties_json;
    out["planDigest"] = job.plan_digest;
    out["slurmJobId"] = job.slurm_job_id;
    out["creationTime"] = base::to_iso8601(job.creation_time);
    out["terminationRequested"] = job.termination_requested
                                      ? Json(base::to_iso8601(*job.termination_requested))
                                      : Json::null();
    return print(out);
}

base::Result<Group> group_from_json(std::string_view text, const std::string& path,
                                    const std::string& name) {
    return read(text, path, group_schema, [&](const Json& json) {
        return Group{name, string_in(json, "location"), tags_in(json),
                     time_in(json, "creationTime")};
    });
}

base::Result<Workspace> workspace_from_json(std::string_view text, const std::string& path,
                                            const WorkspaceKey& key) {
    return read(text, path, workspace_schema, [&](const Json& json) {
        return Workspace{key, string_in(json, "location"), tags_in(json),
                         time_in(json, "creationTime")};
    });
}

base::Result<Experiment> experiment_from_json(std::string_view text, const std::string& path,
                                              const ExperimentKey& key) {
    return read(text, path, experiment_schema, [&](const Json& json) {
        return Experiment{key, time_in(json, "creationTime")};
    });
}

base::Result<Cluster> cluster_from_json(std::string_view text, const std::string& path,
                                        const ClusterKey& key) {
    return read(text, path, cluster_schema, [&](const Json& json) {
        Cluster cluster;
        cluster.key = key;
        cluster.vm_size = string_in(json, "vmSize");
        const auto priority = vm_priority(string_in(json, "vmPriority"));
        if (!priority) throw BadRecord{"\"vmPriority\" is not one of its values"};
        cluster.vm_priority = *priority;
        scale_in(json, cluster);
        cluster.admin_user_name = string_in(json, "adminUserName");
        cluster.admin_user_ssh_public_key = string_in(json, "adminUserSshPublicKey");
        cluster.properties_json = string_in(json, "propertiesJson");
        cluster.creation_time = time_in(json, "creationTime");
        cluster.allocation_state_transition_time = time_in(json, "allocationStateTransitionTime");
        return cluster;
    });
}

base::Result<Job> job_from_json(std::string_view text, const std::string& path, const JobKey& key) {
    return read(text, path, job_schema, [&](const Json& json) {
        Job job;
        job.key = key;
        job.uuid = string_in(json, "uuid");
        job.subscription = string_in(json, "subscription");
        job.cluster = string_in(json, "cluster");
        job.tool_type = string_in(json, "toolType");
        job.node_count = count_in(json, "nodeCount");
        job.properties_json = string_in(json, "propertiesJson");
        job.plan_digest = string_in(json, "planDigest");
        job.slurm_job_id = string_in(json, "slurmJobId");
        job.creation_time = time_in(json, "creationTime");
        job.termination_requested = optional_time_in(json, "terminationRequested");
        return job;
    });
}

}  // namespace batchai::store

// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <jsoncons/json.hpp>

#include "plan/json_names.hpp"
#include "plan/plan.hpp"

namespace batchai::plan {

namespace {

using Json = jsoncons::ojson;

// Thrown inside this file only; from_json turns it into a value.
struct BadPlan {
    std::string what;
};

// An object of the plan and its place ("allocation", "steps[1]"), for messages.
class Reader {
  public:
    Reader(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
        if (!object_.is_object()) throw BadPlan{fmt::format("\"{}\" is not an object", place_)};
    }

    void only(std::initializer_list<std::string_view> keys) const {
        for (const auto& member : object_.object_range()) {
            if (std::find(keys.begin(), keys.end(), std::string_view(member.key())) == keys.end())
                throw BadPlan{fmt::format("\"{}\" is not known", path(member.key()))};
        }
    }

    [[nodiscard]] std::string path(std::string_view key) const {
        return place_.empty() ? std::string(key) : fmt::format("{}.{}", place_, key);
    }

    [[nodiscard]] const Json& member(std::string_view key) const {
        if (!object_.contains(key)) throw BadPlan{fmt::format("\"{}\" is missing", path(key))};
        return object_.at(key);
    }

    [[nodiscard]] std::string text(std::string_view key) const {
        const Json& value = member(key);
        if (!value.is_string()) throw BadPlan{fmt::format("\"{}\" is not a string", path(key))};
        return value.as<std::string>();
    }

    [[nodiscard]] bool flag(std::string_view key) const {
        const Json& value = member(key);
        if (!value.is_bool()) throw BadPlan{fmt::format("\"{}\" is not true or false", path(key))};
        return value.as<bool>();
    }

    [[nodiscard]] std::int64_t number(std::string_view key, std::int64_t least,
                                      std::int64_t most = std::numeric_limits<int>::max()) const {
        const Json& value = member(key);
        if (!value.is_int64() || value.as<std::int64_t>() < least ||
            value.as<std::int64_t>() > most) {
            throw BadPlan{fmt::format("\"{}\" is not an integer from {} on", path(key), least)};
        }
        return value.as<std::int64_t>();
    }

    [[nodiscard]] int count(std::string_view key, int least) const {
        return static_cast<int>(number(key, least));
    }

    [[nodiscard]] Reader object(std::string_view key) const { return {member(key), path(key)}; }

    [[nodiscard]] std::optional<Reader> object_or_null(std::string_view key) const {
        if (member(key).is_null()) return std::nullopt;
        return object(key);
    }

    [[nodiscard]] const Json& array(std::string_view key) const {
        const Json& value = member(key);
        if (!value.is_array()) throw BadPlan{fmt::format("\"{}\" is not an array", path(key))};
        return value;
    }

    [[nodiscard]] std::vector<std::string> texts(std::string_view key) const {
        std::vector<std::string> out;
        for (const Json& value : array(key).array_range()) {
            if (!value.is_string())
                throw BadPlan{fmt::format("\"{}[{}]\" is not a string", path(key), out.size())};
            out.push_back(value.as<std::string>());
        }
        return out;
    }

    template <typename Read>
    [[nodiscard]] auto objects(std::string_view key, Read read) const {
        std::vector<decltype(read(std::declval<const Reader&>()))> out;
        for (const Json& value : array(key).array_range())
            out.push_back(read(Reader(value, fmt::format("{}[{}]", path(key), out.size()))));
        return out;
    }

    template <typename Names>
    [[nodiscard]] auto one_of(const Names& names, std::string_view key) const {
        const std::string word = text(key);
        for (const auto& [name, value] : names) {
            if (name == word) return value;
        }
        throw BadPlan{fmt::format("\"{}\" has the unknown value \"{}\"", path(key), word)};
    }

  private:
    const Json& object_;
    std::string place_;
};

Identity read_identity(const Reader& in) {
    in.only({"subscription", "resourceGroup", "workspace", "experiment", "job", "cluster", "uuid"});
    return {in.text("subscription"), in.text("resourceGroup"), in.text("workspace"),
            in.text("experiment"),   in.text("job"),           in.text("cluster"),
            in.text("uuid")};
}

Allocation read_allocation(const Reader& in) {
    in.only({"nodes", "processes", "processesPerNode", "cpusPerProcess", "exclusive", "partition",
             "constraint", "gres", "account", "qos", "nice", "timeLimitMinutes", "extraOptions"});
    Allocation out;
    out.nodes = in.count("nodes", 1);
    out.processes = in.count("processes", 1);
    out.processes_per_node = in.count("processesPerNode", 1);
    out.cpus_per_process = in.count("cpusPerProcess", 0);
    out.exclusive = in.flag("exclusive");
    out.partition = in.text("partition");
    out.constraint = in.text("constraint");
    out.gres = in.text("gres");
    out.account = in.text("account");
    out.qos = in.text("qos");
    out.nice = in.count("nice", std::numeric_limits<int>::min());
    out.time_limit = std::chrono::minutes(in.number("timeLimitMinutes", 0));
    out.extra_options = in.texts("extraOptions");
    return out;
}

Directories read_directories(const Reader& in) {
    in.only({"nodeRoot", "jobTemp", "mountRoot", "jobMountRoot", "jobDirectory", "sharedJobTemp",
             "stdouterr", "stdouterrHost"});
    return {in.text("nodeRoot"),     in.text("jobTemp"),      in.text("mountRoot"),
            in.text("jobMountRoot"), in.text("jobDirectory"), in.text("sharedJobTemp"),
            in.text("stdouterr"),    in.text("stdouterrHost")};
}

Variable read_variable(const Reader& in) {
    in.only({"name", "value"});
    return {in.text("name"), in.text("value")};
}

RemoteVolume read_remote(const Reader& in) {
    in.only({"backend", "path", "options", "secretOption", "secretName", "credentialsFile",
             "fileMode", "directoryMode"});
    RemoteVolume out;
    out.backend = in.text("backend");
    out.path = in.text("path");
    out.options = in.objects("options", read_variable);
    out.secret_option = in.text("secretOption");
    out.secret_name = in.text("secretName");
    out.credentials_file = in.text("credentialsFile");
    out.file_mode = static_cast<int>(in.number("fileMode", 0, 0777));
    out.directory_mode = static_cast<int>(in.number("directoryMode", 0, 0777));
    return out;
}

Mount read_mount(const Reader& in) {
    in.only({"kind", "name", "source", "target", "scope", "readOnly", "createSource", "sourceRoot",
             "noExecute", "remote", "mountSeconds", "flushSeconds"});
    Mount out;
    out.kind = in.text("kind");
    out.name = in.text("name");
    out.source = in.text("source");
    out.target = in.text("target");
    out.scope = in.one_of(scope_names, "scope");
    out.read_only = in.flag("readOnly");
    out.create_source = in.flag("createSource");
    out.source_root = in.text("sourceRoot");
    out.no_execute = in.flag("noExecute");
    if (const auto remote = in.object_or_null("remote")) out.remote = read_remote(*remote);
    out.mount_seconds = in.count("mountSeconds", 1);
    out.flush_seconds = in.count("flushSeconds", 0);
    return out;
}

OutputDirectory read_output(const Reader& in) {
    in.only({"id", "path", "pathHost", "create"});
    return {in.text("id"), in.text("path"), in.text("pathHost"), in.flag("create")};
}

HostBind read_bind(const Reader& in) {
    in.only({"source", "target", "readOnly", "optional"});
    return {in.text("source"), in.text("target"), in.flag("readOnly"), in.flag("optional")};
}

Container read_container(const Reader& in) {
    in.only({"image", "digest", "source", "root", "rootIsDirectory", "environment", "entrypoint",
             "workingDirectory", "shmBytes", "ranksAsRoot", "binds", "inject"});
    Container out;
    out.image = in.text("image");
    out.digest = in.text("digest");
    out.source = in.text("source");
    out.root = in.text("root");
    out.root_is_directory = in.flag("rootIsDirectory");
    out.environment = in.objects("environment", read_variable);
    out.entrypoint = in.texts("entrypoint");
    out.working_directory = in.text("workingDirectory");
    out.shm_bytes = in.number("shmBytes", 0, std::numeric_limits<std::int64_t>::max());
    out.ranks_as_root = in.flag("ranksAsRoot");
    out.binds = in.objects("binds", read_bind);
    out.inject = in.flag("inject");
    return out;
}

Step read_step(const Reader& in) {
    in.only(
        {"kind", "command", "processes", "processesPerNode", "pmix", "stdoutName", "stderrName"});
    return {in.one_of(step_names, "kind"),
            in.text("command"),
            in.count("processes", 1),
            in.count("processesPerNode", 1),
            in.flag("pmix"),
            in.text("stdoutName"),
            in.text("stderrName")};
}

Plan read_plan(const Reader& in) {
    if (const std::string schema = in.text("schema"); schema != plan_schema)
        throw BadPlan{fmt::format("\"schema\" is \"{}\", not \"{}\"", schema, plan_schema)};
    in.only({"schema", "identity", "toolType", "allocation", "directories", "mounts", "container",
             "outputs", "environment", "secretNames", "steps", "notices"});
    Plan plan;
    plan.identity = read_identity(in.object("identity"));
    plan.tool_type = in.text("toolType");
    plan.allocation = read_allocation(in.object("allocation"));
    plan.directories = read_directories(in.object("directories"));
    plan.mounts = in.objects("mounts", read_mount);
    if (const auto container = in.object_or_null("container"))
        plan.container = read_container(*container);
    plan.outputs = in.objects("outputs", read_output);
    plan.environment = in.objects("environment", read_variable);
    plan.secret_names = in.texts("secretNames");
    plan.steps = in.objects("steps", read_step);
    plan.notices = in.texts("notices");
    return plan;
}

tl::unexpected<base::Error> damaged(std::string what) {
    return base::fail("this is not a plan of this release: " + std::move(what), {},
                      "create the job again");
}

}  // namespace

base::Result<Plan> from_json(std::string_view text) {
    try {
        return read_plan(Reader(Json::parse(text), {}));
    } catch (const BadPlan& fault) {
        return damaged(fault.what);
    } catch (const std::exception& fault) {
        return damaged(fault.what());
    }
}

}  // namespace batchai::plan

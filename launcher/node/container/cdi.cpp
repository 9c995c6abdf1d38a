// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/container/cdi.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <jsoncons/json.hpp>

#include "base/file.hpp"

namespace batchai::node {

namespace {

using Json = jsoncons::json;

constexpr std::size_t file_limit = 16UL << 20U;

const Json& member(const Json& object, std::string_view key) {
    static const Json nothing = Json::null();
    return object.is_object() && object.contains(key) ? object.at(key) : nothing;
}

std::string text_of(const Json& object, std::string_view key) {
    const Json& value = member(object, key);
    if (value.is_null()) return {};
    return value.as<std::string>();
}

std::vector<Json> list_of(const Json& object, std::string_view key) {
    const Json& value = member(object, key);
    if (value.is_null()) return {};
    if (!value.is_array()) throw std::runtime_error(fmt::format("\"{}\" is not a list", key));
    const auto range = value.array_range();
    return std::vector<Json>(range.begin(), range.end());
}

std::string absolute(std::string path, std::string_view key) {
    if (!path.starts_with('/'))
        throw std::runtime_error(fmt::format("\"{}\" is not an absolute path: \"{}\"", key, path));
    return path;
}

void add_once(std::vector<Bind>& binds, Bind bind) {
    if (std::find(binds.begin(), binds.end(), bind) == binds.end())
        binds.push_back(std::move(bind));
}

void add_edits(const Json& edits, DeviceEdits& into) {
    for (const Json& node : list_of(edits, "deviceNodes")) {
        const std::string path = absolute(text_of(node, "path"), "path");
        const std::string host = text_of(node, "hostPath");
        add_once(into.nodes,
                 {host.empty() ? path : absolute(host, "hostPath"), path, false, false});
    }
    for (const Json& mount : list_of(edits, "mounts")) {
        bool read_only = false;
        for (const Json& option : list_of(mount, "options"))
            read_only = read_only || option.as<std::string>() == "ro";
        add_once(into.mounts,
                 {absolute(text_of(mount, "hostPath"), "hostPath"),
                  absolute(text_of(mount, "containerPath"), "containerPath"), read_only, false});
    }
    for (const Json& entry : list_of(edits, "env")) {
        const auto text = entry.as<std::string>();
        const std::size_t sign = text.find('=');
        if (sign == 0 || sign == std::string::npos)
            throw std::runtime_error(fmt::format("\"env\" has \"{}\", not NAME=value", text));
        into.environment.push_back({text.substr(0, sign), text.substr(sign + 1)});
    }
}

void append(DeviceEdits& all, const DeviceEdits& more) {
    for (const Bind& bind : more.nodes)
        add_once(all.nodes, bind);
    for (const Bind& bind : more.mounts)
        add_once(all.mounts, bind);
    all.environment.insert(all.environment.end(), more.environment.begin(), more.environment.end());
}

}  // namespace

base::Result<DeviceEdits> parse_cdi(std::string_view text) {
    try {
        const Json spec = Json::parse(text);
        if (text_of(spec, "cdiVersion").empty() || text_of(spec, "kind").empty())
            return base::fail("has no \"cdiVersion\" or no \"kind\"");
        DeviceEdits edits;
        add_edits(member(spec, "containerEdits"), edits);
        std::vector<Json> devices = list_of(spec, "devices");
        const auto all = std::find_if(devices.begin(), devices.end(), [](const Json& device) {
            return text_of(device, "name") == "all";
        });
        if (all != devices.end()) devices = {Json(*all)};
        for (const Json& device : devices)
            add_edits(member(device, "containerEdits"), edits);
        return edits;
    } catch (const std::exception& error) {
        return base::fail(error.what());
    }
}

base::Result<NodeDevices> read_cdi(const std::vector<std::string>& directories) {
    std::map<std::string, std::filesystem::path> files;
    for (const std::string& directory : directories) {
        std::error_code missing;
        for (const auto& entry : std::filesystem::directory_iterator(directory, missing))
            files[entry.path().filename().string()] = entry.path();
    }
    NodeDevices devices;
    for (const auto& [name, path] : files) {
        if (path.extension() == ".yaml" || path.extension() == ".yml") {
            devices.remarks.push_back(
                fmt::format("{}: CDI files in YAML are not supported yet, so the container lacks "
                            "its devices; the admin can write it as JSON",
                            path.string()));
            continue;
        }
        if (path.extension() != ".json") continue;
        const auto text = base::read_file(path, file_limit);
        if (!text) return tl::unexpected<base::Error>(text.error());
        const auto edits = parse_cdi(*text);
        if (!edits)
            return base::fail("is not a CDI file: " + edits.error().what, path.string(),
                              "the admin should write it anew");
        append(devices.edits, *edits);
    }
    return devices;
}

}  // namespace batchai::node

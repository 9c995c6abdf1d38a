// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/cdi.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <stdexcept>

#include <fmt/format.h>
#include <jsoncons/json.hpp>

#include "node/devices/cdi_yaml.hpp"

namespace batchai::node {

namespace {

using Json = jsoncons::json;

// Of a bind mount. But for "ro" they change nothing for processes that have the user's rights only.
constexpr std::array<std::string_view, 20> mount_options{
    "ro",     "rw",     "bind",    "rbind",      "private", "rprivate",   "slave",
    "rslave", "shared", "rshared", "unbindable", "nosuid",  "suid",       "nodev",
    "dev",    "noexec", "exec",    "relatime",   "noatime", "runbindable"};

const Json& member(const Json& object, std::string_view key) {
    static const Json nothing = Json::null();
    return object.is_object() && object.contains(key) ? object.at(key) : nothing;
}

std::string text_of(const Json& object, std::string_view key) {
    const Json& value = member(object, key);
    if (value.is_null()) return {};
    if (value.is_array() || value.is_object())
        throw std::runtime_error(fmt::format("\"{}\" is not a text", key));
    return value.as<std::string>();
}

std::vector<Json> list_of(const Json& object, std::string_view key) {
    const Json& value = member(object, key);
    if (value.is_null()) return {};
    if (!value.is_array()) throw std::runtime_error(fmt::format("\"{}\" is not a list", key));
    const auto range = value.array_range();
    return std::vector<Json>(range.begin(), range.end());
}

std::vector<std::string> texts_of(const Json& object, std::string_view key) {
    std::vector<std::string> texts;
    for (const Json& value : list_of(object, key))
        texts.push_back(value.as<std::string>());
    return texts;
}

std::string absolute(std::string path, std::string_view key) {
    if (!path.starts_with('/'))
        throw std::runtime_error(fmt::format("\"{}\" is not an absolute path: \"{}\"", key, path));
    return path;
}

template <typename T>
void add_once(std::vector<T>& list, T entry) {
    if (std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(std::move(entry));
}

bool is_assignment(const std::string& text) {
    const std::size_t sign = text.find('=');
    return sign != 0 && sign != std::string::npos;
}

// One file's edits, each with the file's name for the messages of those who carry them out.
class Decoder {
  public:
    Decoder(CdiSpec& spec, std::string file) : spec_(spec), file_(std::move(file)) {
        hint_ =
            file_ + " names it; if the node has changed since, the admin should write that anew";
    }

    DeviceEdits edits(const Json& from) {
        note_unknown(from, {"env", "deviceNodes", "mounts", "hooks", "additionalGids"});
        DeviceEdits into;
        for (const Json& node : list_of(from, "deviceNodes"))
            add_once(into.nodes, device(node));
        for (const Json& mount : list_of(from, "mounts"))
            add_once(into.mounts, bind(mount));
        for (std::string& entry : texts_of(from, "env")) {
            if (!is_assignment(entry))
                throw std::runtime_error(fmt::format("\"env\" has \"{}\", not NAME=value", entry));
            const std::size_t sign = entry.find('=');
            into.environment.push_back({entry.substr(0, sign), entry.substr(sign + 1)});
        }
        for (const Json& entry : list_of(from, "hooks"))
            add_once(into.hooks, hook(entry));
        for (const Json& group : list_of(from, "additionalGids"))
            add_once(into.groups, static_cast<gid_t>(group.as<std::uint32_t>()));
        return into;
    }

    // What is new in a later version of the specification, or is root's to do.
    void note_unknown(const Json& object, std::initializer_list<std::string_view> known) {
        if (!object.is_object()) return;
        for (const auto& entry : object.object_range()) {
            if (std::find(known.begin(), known.end(), std::string_view(entry.key())) == known.end())
                add_once(spec_.remarks,
                         fmt::format("{}: \"{}\" is passed over: containers of jobs do not have it",
                                     file_, entry.key()));
        }
    }

  private:
    // The rest (type, numbers, owner) is for those who make the file anew; here it is the node's.
    Bind device(const Json& node) {
        const std::string path = absolute(text_of(node, "path"), "path");
        const std::string host = text_of(node, "hostPath");
        return {host.empty() ? path : absolute(host, "hostPath"), path, false, false, hint_};
    }

    Bind bind(const Json& mount) {
        const std::string type = text_of(mount, "type");
        if (!type.empty() && type != "bind" && type != "none" && type != "rbind")
            throw std::runtime_error(fmt::format("a mount of type \"{}\" is not supported", type));
        Bind made{absolute(text_of(mount, "hostPath"), "hostPath"),
                  absolute(text_of(mount, "containerPath"), "containerPath"), false, false, hint_};
        for (const std::string& option : texts_of(mount, "options")) {
            if (std::find(mount_options.begin(), mount_options.end(), option) ==
                mount_options.end())
                throw std::runtime_error(
                    fmt::format("the mount option \"{}\" is not supported", option));
            made.read_only = made.read_only || option == "ro";
        }
        return made;
    }

    CdiHook hook(const Json& from) {
        const std::string stage = text_of(from, "hookName");
        // The others run where there is no part of a container yet that a user's process could
        // change, or when it has ended.
        if (stage != "createContainer")
            throw std::runtime_error(fmt::format(
                "a hook of the stage \"{}\" is not supported, only of createContainer", stage));
        CdiHook made{absolute(text_of(from, "path"), "path"), texts_of(from, "args"),
                     texts_of(from, "env"), 0, file_};
        if (made.arguments.empty()) made.arguments = {made.path};
        const Json& timeout = member(from, "timeout");
        if (!timeout.is_null()) made.timeout_seconds = timeout.as<int>();
        if (made.timeout_seconds < 0 || (!timeout.is_null() && made.timeout_seconds == 0))
            throw std::runtime_error("the \"timeout\" of a hook is not above zero");
        return made;
    }

    CdiSpec& spec_;
    std::string file_;
    std::string hint_;
};

CdiSpec decode(const Json& document, const std::string& file) {
    if (text_of(document, "cdiVersion").empty() || text_of(document, "kind").empty())
        throw std::runtime_error("has no \"cdiVersion\" or no \"kind\"");
    CdiSpec spec;
    spec.kind = text_of(document, "kind");
    Decoder decoder(spec, file);
    decoder.note_unknown(document,
                         {"cdiVersion", "kind", "annotations", "devices", "containerEdits"});
    spec.edits = decoder.edits(member(document, "containerEdits"));
    for (const Json& device : list_of(document, "devices")) {
        decoder.note_unknown(device, {"name", "annotations", "containerEdits"});
        spec.devices.push_back(
            {text_of(device, "name"), decoder.edits(member(device, "containerEdits"))});
        if (spec.devices.back().name.empty()) throw std::runtime_error("a device has no \"name\"");
    }
    return spec;
}

}  // namespace

void DeviceEdits::add(const DeviceEdits& more) {
    const auto merge = [](auto& into, const auto& from) {
        for (const auto& entry : from)
            add_once(into, entry);
    };
    merge(nodes, more.nodes);
    merge(mounts, more.mounts);
    merge(hooks, more.hooks);
    merge(groups, more.groups);
    environment.insert(environment.end(), more.environment.begin(), more.environment.end());
}

std::string_view CdiSpec::device_class() const {
    const std::size_t slash = kind.find('/');
    return slash == std::string::npos ? std::string_view()
                                      : std::string_view(kind).substr(slash + 1);
}

base::Result<CdiSpec> parse_cdi(std::string_view text, CdiFormat format, const std::string& file) {
    try {
        return decode(format == CdiFormat::yaml ? json_of_yaml(text) : Json::parse(text), file);
    } catch (const std::exception& error) {
        return base::fail(error.what());
    }
}

}  // namespace batchai::node

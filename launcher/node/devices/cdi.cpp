// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/cdi.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "base/json.hpp"
#include "node/devices/cdi_yaml.hpp"

namespace batchai::node {

namespace {

using base::Value;

// Of a bind mount. But for "ro" they change nothing for processes that have the user's rights only.
constexpr std::array<std::string_view, 20> mount_options{
    "ro",     "rw",     "bind",    "rbind",      "private", "rprivate",   "slave",
    "rslave", "shared", "rshared", "unbindable", "nosuid",  "suid",       "nodev",
    "dev",    "noexec", "exec",    "relatime",   "noatime", "runbindable"};

// A number that stands where a text is meant is taken as it is written.
std::string text_in(const Value& value, std::string_view key) {
    if (const std::string* const text = value.string()) return *text;
    if (const std::int64_t* const number = value.integer()) return std::to_string(*number);
    if (const double* const number = value.real()) return base::number_text(*number);
    if (const bool* const flag = value.boolean()) return *flag ? "true" : "false";
    throw std::runtime_error(fmt::format("\"{}\" is not a text", key));
}

std::string text_of(const Value& object, std::string_view key) {
    const Value& value = object[key];
    return value.is_null() ? std::string() : text_in(value, key);
}

std::int64_t number_in(const Value& value, std::string_view key, std::int64_t most) {
    const std::int64_t* const number = value.integer();
    if (number == nullptr || *number < 0 || *number > most)
        throw std::runtime_error(
            fmt::format("\"{}\" is not a whole number from 0 to {}", key, most));
    return *number;
}

Value::Array list_of(const Value& object, std::string_view key) {
    const Value& value = object[key];
    if (value.is_null()) return {};
    if (!value.is_array()) throw std::runtime_error(fmt::format("\"{}\" is not a list", key));
    return *value.array();
}

std::vector<std::string> texts_of(const Value& object, std::string_view key) {
    std::vector<std::string> texts;
    for (const Value& value : list_of(object, key))
        texts.push_back(text_in(value, key));
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

    DeviceEdits edits(const Value& from) {
        note_unknown(from, {"env", "deviceNodes", "mounts", "hooks", "additionalGids"});
        DeviceEdits into;
        for (const Value& node : list_of(from, "deviceNodes"))
            add_once(into.nodes, device(node));
        for (const Value& mount : list_of(from, "mounts"))
            add_once(into.mounts, bind(mount));
        for (std::string& entry : texts_of(from, "env")) {
            if (!is_assignment(entry))
                throw std::runtime_error(fmt::format("\"env\" has \"{}\", not NAME=value", entry));
            const std::size_t sign = entry.find('=');
            into.environment.push_back({entry.substr(0, sign), entry.substr(sign + 1)});
        }
        for (const Value& entry : list_of(from, "hooks"))
            add_once(into.hooks, hook(entry));
        for (const Value& group : list_of(from, "additionalGids"))
            add_once(into.groups, static_cast<gid_t>(number_in(group, "additionalGids",
                                                               std::numeric_limits<gid_t>::max())));
        return into;
    }

    // What is new in a later version of the specification, or is root's to do.
    void note_unknown(const Value& object, std::initializer_list<std::string_view> known) {
        if (!object.is_object()) return;
        for (const auto& [key, value] : *object.object()) {
            if (std::find(known.begin(), known.end(), std::string_view(key)) == known.end())
                add_once(spec_.remarks,
                         fmt::format("{}: \"{}\" is passed over: containers of jobs do not have it",
                                     file_, key));
        }
    }

  private:
    // The rest (type, numbers, owner) is for those who make the file anew; here it is the node's.
    Bind device(const Value& node) {
        const std::string path = absolute(text_of(node, "path"), "path");
        const std::string host = text_of(node, "hostPath");
        return {host.empty() ? path : absolute(host, "hostPath"), path, false, false, hint_};
    }

    Bind bind(const Value& mount) {
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

    CdiHook hook(const Value& from) {
        const std::string stage = text_of(from, "hookName");
        // The others run where there is no part of a container yet that a user's process could
        // change, or when it has ended.
        if (stage != "createContainer")
            throw std::runtime_error(fmt::format(
                "a hook of the stage \"{}\" is not supported, only of createContainer", stage));
        CdiHook made{absolute(text_of(from, "path"), "path"), texts_of(from, "args"),
                     texts_of(from, "env"), 0, file_};
        if (made.arguments.empty()) made.arguments = {made.path};
        const Value& timeout = from["timeout"];
        if (!timeout.is_null())
            made.timeout_seconds =
                static_cast<int>(number_in(timeout, "timeout", std::numeric_limits<int>::max()));
        if (!timeout.is_null() && made.timeout_seconds == 0)
            throw std::runtime_error("the \"timeout\" of a hook is not above zero");
        return made;
    }

    CdiSpec& spec_;
    std::string file_;
    std::string hint_;
};

CdiSpec decode(const Value& document, const std::string& file) {
    if (text_of(document, "cdiVersion").empty() || text_of(document, "kind").empty())
        throw std::runtime_error("has no \"cdiVersion\" or no \"kind\"");
    CdiSpec spec;
    spec.kind = text_of(document, "kind");
    Decoder decoder(spec, file);
    decoder.note_unknown(document,
                         {"cdiVersion", "kind", "annotations", "devices", "containerEdits"});
    spec.edits = decoder.edits(document["containerEdits"]);
    for (const Value& device : list_of(document, "devices")) {
        decoder.note_unknown(device, {"name", "annotations", "containerEdits"});
        spec.devices.push_back({text_of(device, "name"), decoder.edits(device["containerEdits"])});
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
        if (format == CdiFormat::yaml) return decode(json_of_yaml(text), file);
        const auto document = base::parse_json(text, file);
        // With the place of the fault.
        if (!document) return base::fail(document.error().text());
        return decode(*document, file);
    } catch (const std::exception& error) {
        return base::fail(error.what());
    }
}

}  // namespace batchai::node

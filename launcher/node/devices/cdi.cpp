// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/cdi.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace batchai::node {

namespace {

using base::Value;

// The maximum nesting depth, which no real file reaches. Without it, a loop of aliases would never
// end.
constexpr int deepest = 32;

// Converts YAML to the JSON value that it stands for. Plain scalars (with the tag "?") become null,
// booleans and integers according to YAML's core schema. Every other scalar becomes text.
Value scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() != "?") return text;
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
        return {};
    if (text == "true" || text == "True" || text == "TRUE") return true;
    if (text == "false" || text == "False" || text == "FALSE") return false;
    if (const auto number = base::number_in<std::int64_t>(text)) return *number;
    return text;
}

Value convert(const YAML::Node& node, int depth) {
    if (depth > deepest)
        throw std::runtime_error(
            fmt::format("line {}: is nested too deeply", node.Mark().line + 1));
    if (node.IsSequence()) {
        Value::Array list;
        for (const YAML::Node& entry : node)
            list.push_back(convert(entry, depth + 1));
        return list;
    }
    if (node.IsMap()) {
        Value object(Value::Object{});
        for (const auto& member : node)
            object.set(member.first.as<std::string>(), convert(member.second, depth + 1));
        return object;
    }
    return node.IsScalar() ? scalar(node) : Value();
}

constexpr std::size_t specification_limit = 16UL << 20U;

struct Found {
    std::filesystem::path path;
    std::size_t directory = 0;  // index of the directory; a later one takes precedence
};

std::optional<CdiFormat> format_of(const std::filesystem::path& path) {
    if (path.extension() == ".json") return CdiFormat::json;
    if (path.extension() == ".yaml" || path.extension() == ".yml") return CdiFormat::yaml;
    return std::nullopt;
}

std::map<std::string, Found> find_files(const std::vector<std::string>& directories) {
    std::map<std::string, Found> files;
    for (std::size_t i = 0; i < directories.size(); ++i) {
        std::error_code missing;
        for (const auto& entry : base::entries_of(directories[i], missing)) {
            if (format_of(entry.path()))
                files[entry.path().filename().string()] = {entry.path(), i};
        }
    }
    return files;
}

// Accepted options of bind mounts. Only "ro" has an effect on processes that have no more than the
// user's rights.
constexpr std::array<std::string_view, 20> mount_options{
    "ro",     "rw",     "bind",    "rbind",      "private", "rprivate",   "slave",
    "rslave", "shared", "rshared", "unbindable", "nosuid",  "suid",       "nodev",
    "dev",    "noexec", "exec",    "relatime",   "noatime", "runbindable"};

std::string scalar_text(const Value& value, std::string_view key) {
    if (const std::string* const string = value.string()) return *string;
    if (const std::int64_t* const number = value.integer()) return std::to_string(*number);
    if (const bool* const flag = value.boolean()) return *flag ? "true" : "false";
    if (const double* const number = value.real()) return base::number_text(*number);
    throw std::runtime_error(fmt::format("\"{}\" is not a string", key));
}

std::string text_of(const Value& object, std::string_view key) {
    const Value& value = object[key];
    return value.is_null() ? std::string() : scalar_text(value, key);
}

const Value::Array& items_of(const Value& object, std::string_view key) {
    static const Value::Array nothing;
    const Value& value = object[key];
    if (value.is_null()) return nothing;
    if (!value.is_array()) throw std::runtime_error(fmt::format("\"{}\" is not a list", key));
    return *value.array();
}

std::vector<std::string> texts_of(const Value& object, std::string_view key) {
    std::vector<std::string> texts;
    for (const Value& value : items_of(object, key))
        texts.push_back(scalar_text(value, key));
    return texts;
}

template <typename Number>
Number number(const Value& value, std::string_view key) {
    const std::int64_t* const found = value.integer();
    if (found == nullptr || *found < std::numeric_limits<Number>::min() ||
        *found > static_cast<std::int64_t>(std::numeric_limits<Number>::max()))
        throw std::runtime_error(fmt::format("\"{}\" is not a number that fits", key));
    return static_cast<Number>(*found);
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

// Decodes the edits of one file. Each edit keeps the file's name for messages when it is carried
// out.
class Decoder {
  public:
    Decoder(CdiSpec& spec, std::string file) : spec_(spec), file_(std::move(file)) {
        hint_ =
            file_ +
            " names it; if the node has changed since then, the admin should regenerate that file";
    }

    DeviceEdits edits(const Value& from) {
        note_unknown(from, {"env", "deviceNodes", "mounts", "hooks", "additionalGids"});
        DeviceEdits into;
        for (const Value& node : items_of(from, "deviceNodes"))
            add_once(into.nodes, device(node));
        for (const Value& mount : items_of(from, "mounts"))
            add_once(into.mounts, bind(mount));
        for (std::string& entry : texts_of(from, "env")) {
            if (!is_assignment(entry))
                throw std::runtime_error(fmt::format("\"env\" has \"{}\", not NAME=value", entry));
            const std::size_t sign = entry.find('=');
            into.environment.push_back({entry.substr(0, sign), entry.substr(sign + 1)});
        }
        for (const Value& entry : items_of(from, "hooks"))
            add_once(into.hooks, hook(entry));
        for (const Value& group : items_of(from, "additionalGids"))
            add_once(into.groups, number<gid_t>(group, "additionalGids"));
        return into;
    }

    // Adds a remark for each unknown key: one from a later version of the specification, or one
    // that only root could carry out.
    void note_unknown(const Value& object, std::initializer_list<std::string_view> known) {
        if (!object.is_object()) return;
        for (const auto& [key, value] : *object.object()) {
            if (std::find(known.begin(), known.end(), std::string_view(key)) == known.end())
                add_once(
                    spec_.remarks,
                    fmt::format("{}: \"{}\" is ignored, because job containers do not support it",
                                file_, key));
        }
    }

  private:
    // The other keys (type, numbers, owner) are for runtimes that create the device file. Here the
    // container gets the node's own file.
    Bind device(const Value& node) {
        const std::string path = absolute(text_of(node, "path"), "path");
        const std::string host = text_of(node, "hostPath");
        return {.source = host.empty() ? path : absolute(host, "hostPath"),
                .target = path,
                .hint = hint_};
    }

    Bind bind(const Value& mount) {
        const std::string type = text_of(mount, "type");
        if (!type.empty() && type != "bind" && type != "none" && type != "rbind")
            throw std::runtime_error(fmt::format("a mount of type \"{}\" is not supported", type));
        Bind made{.source = absolute(text_of(mount, "hostPath"), "hostPath"),
                  .target = absolute(text_of(mount, "containerPath"), "containerPath"),
                  .hint = hint_};
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
        // Hooks of the other stages run before a user's process can change any part of the
        // container, or after the container has ended.
        if (stage != "createContainer")
            throw std::runtime_error(fmt::format(
                "a hook of the stage \"{}\" is not supported, only of createContainer", stage));
        CdiHook made{.path = absolute(text_of(from, "path"), "path"),
                     .arguments = texts_of(from, "args"),
                     .environment = texts_of(from, "env"),
                     .file = file_};
        if (made.arguments.empty()) made.arguments = {made.path};
        const Value& timeout = from["timeout"];
        if (timeout.is_null()) return made;
        made.timeout_seconds = number<int>(timeout, "timeout");
        if (made.timeout_seconds <= 0)
            throw std::runtime_error("the \"timeout\" of a hook must be greater than zero");
        return made;
    }

    CdiSpec& spec_;
    std::string file_;
    std::string hint_;
};

Value document_of(std::string_view bytes, CdiFormat format) {
    if (format == CdiFormat::yaml) return convert(YAML::Load(std::string(bytes)), 0);
    auto document = base::parse_json(bytes, {});
    if (document) return std::move(*document);
    // Without a file's name the place of the fault is ":LINE:COLUMN", or nothing.
    const base::Error& fault = document.error();
    const auto place = base::split(fault.where, ':');
    if (place.size() != 3) throw std::runtime_error(fault.what);
    throw std::runtime_error(fmt::format("line {}, column {}: {}", place[1], place[2], fault.what));
}

CdiSpec decode(const Value& document, const std::string& file) {
    if (text_of(document, "cdiVersion").empty() || text_of(document, "kind").empty())
        throw std::runtime_error("has no \"cdiVersion\" or no \"kind\"");
    CdiSpec spec;
    spec.kind = text_of(document, "kind");
    if (spec.kind.front() == '/' || spec.device_class().empty())
        throw std::runtime_error("has a \"kind\" that is not VENDOR/CLASS");
    Decoder decoder(spec, file);
    decoder.note_unknown(document,
                         {"cdiVersion", "kind", "annotations", "devices", "containerEdits"});
    spec.edits = decoder.edits(document["containerEdits"]);
    for (const Value& device : items_of(document, "devices")) {
        decoder.note_unknown(device, {"name", "annotations", "containerEdits"});
        spec.devices.push_back({text_of(device, "name"), decoder.edits(device["containerEdits"])});
        if (spec.devices.back().name.empty()) throw std::runtime_error("a device has no \"name\"");
    }
    return spec;
}

}  // namespace

base::Result<CdiFiles> read_cdi(const std::vector<std::string>& directories) {
    CdiFiles read;
    std::map<std::string, std::size_t> directory_of_kind;
    std::vector<std::size_t> directory_of_spec;
    for (const auto& [name, file] : find_files(directories)) {
        const auto text = TRY(base::read_file(file.path, specification_limit));
        auto spec = parse_cdi(text, format_of(file.path).value(), file.path.string());
        if (!spec)
            return base::fail("cannot be used as a CDI file: " + spec.error().what,
                              file.path.string(), "the admin should regenerate it");
        std::size_t& latest = directory_of_kind[spec->kind];
        latest = std::max(latest, file.directory);
        directory_of_spec.push_back(file.directory);
        read.specs.push_back(std::move(*spec));
    }
    std::vector<CdiSpec> counting;
    for (std::size_t i = 0; i < read.specs.size(); ++i) {
        CdiSpec& spec = read.specs[i];
        if (directory_of_spec[i] != directory_of_kind[spec.kind]) continue;
        read.remarks.insert(read.remarks.end(), spec.remarks.begin(), spec.remarks.end());
        counting.push_back(std::move(spec));
    }
    read.specs = std::move(counting);
    return read;
}

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
        return decode(document_of(text, format), file);
    } catch (const std::exception& error) {
        return base::fail(error.what());
    }
}

}  // namespace batchai::node

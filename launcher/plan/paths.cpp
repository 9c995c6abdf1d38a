// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/paths.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/plan.hpp"

namespace batchai::plan {

namespace {

// At these paths every node has a directory of its own, whatever the site says.
constexpr std::array<std::string_view, 5> always_local = {"/tmp", "/var/tmp", "/dev/shm", "/run",
                                                          "/proc"};

std::string parent_of(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos || slash == 0 ? std::string(path)
                                                         : std::string(path.substr(0, slash));
}

std::string_view mount_root_of(const Mount& mount, const Directories& directories) {
    return mount.scope == MountScope::job ? directories.job_mount_root : directories.mount_root;
}

}  // namespace

std::string normalized(std::string_view path) {
    std::string out;
    const bool absolute = path.starts_with('/');
    for (const std::string_view component : base::split(path, '/')) {
        if (component.empty() || component == ".") continue;
        if (absolute || !out.empty()) out += '/';
        out += component;
    }
    return out.empty() && absolute ? "/" : out;
}

std::string below_home(std::string_view path, std::string_view home) {
    if (path != "~" && !path.starts_with("~/")) return std::string(path);
    return std::string(home).append(path.substr(1));
}

bool is_within(std::string_view path, std::string_view directory) {
    if (directory == "/") return path.starts_with('/');
    if (!path.starts_with(directory)) return false;
    return path.size() == directory.size() || path[directory.size()] == '/';
}

bool has_parent_component(std::string_view path) {
    const auto components = base::split(path, '/');
    return std::find(components.begin(), components.end(), "..") != components.end();
}

bool is_component(std::string_view name) {
    const auto bad = [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return c == '/' || byte < 0x20 || byte == 0x7F;
    };
    return !name.empty() && name != "." && name != ".." &&
           std::none_of(name.begin(), name.end(), bad);
}

bool stays_below(std::string_view path) {
    if (path.empty()) return true;
    const auto components = base::split(path, '/');
    return std::all_of(components.begin(), components.end(), is_component);
}

std::string Identity::path_segment() const {
    return fmt::format("{}/{}/workspaces/{}/experiments/{}/jobs/{}/{}", subscription,
                       resource_group, workspace, experiment, job, uuid);
}

const std::string* last_value(const std::vector<Variable>& environment, std::string_view name) {
    const std::string* value = nullptr;
    for (const Variable& variable : environment) {
        if (variable.name == name) value = &variable.value;
    }
    return value;
}

Plan::Place Plan::place_of(std::string_view job_path) const {
    const std::string path = normalized(job_path);
    if (!path.starts_with('/') || has_parent_component(path)) return {};
    Place best;
    std::string best_target;
    for (const Mount& mount : mounts) {
        std::string target =
            normalized(fmt::format("{}/{}", mount_root_of(mount, directories), mount.target));
        if (!is_within(path, target) ||
            (best.mount != nullptr && target.size() <= best_target.size()))
            continue;
        best.mount = &mount;
        best_target = std::move(target);
    }
    if (best.mount != nullptr && path.size() > best_target.size())
        best.rest = path.substr(best_target.size() + 1);
    return best;
}

std::optional<std::string> Plan::host_path(std::string_view job_path) const {
    const std::string path = normalized(job_path);
    if (!path.starts_with('/') || has_parent_component(path)) return std::nullopt;
    if (const Place place = place_of(path); place.mount != nullptr) {
        if (place.mount->remote) return std::nullopt;
        return normalized(fmt::format("{}/{}", place.mount->source, place.rest));
    }
    const auto within = [&](std::string_view directory) {
        return !directory.empty() && is_within(path, normalized(directory));
    };
    if (within(directories.node_root)) return std::nullopt;
    if (within(directories.job_directory)) return path;
    if (within(parent_of(directories.node_root))) return std::nullopt;
    if (std::any_of(always_local.begin(), always_local.end(), within)) return std::nullopt;
    return path;
}

namespace {

bool starts_name(char c) {
    return base::is_letter(c) || c == '_';
}
bool continues_name(char c) {
    return starts_name(c) || base::is_digit(c);
}

struct Reference {
    std::string_view name;   // empty: the "$" is an ordinary character
    std::size_t length = 1;  // of the reference, including the "$"
};

// `text` must start with "$".
Reference reference_at(std::string_view text) {
    const bool braced = text.size() > 1 && text[1] == '{';
    const std::size_t begin = braced ? 2 : 1;
    if (begin >= text.size() || !starts_name(text[begin])) return {};
    std::size_t end = begin;
    while (end < text.size() && continues_name(text[end]))
        ++end;
    const std::string_view name = text.substr(begin, end - begin);
    if (!braced) return {name, end};
    if (end >= text.size() || text[end] != '}') return {};
    return {name, end + 1};
}

}  // namespace

void Scope::set(std::string name, std::string value) {
    values_.insert_or_assign(std::move(name), std::move(value));
}

Expanded Scope::expand(std::string_view text) const {
    Expanded out;
    while (!text.empty() && out.text.size() <= longest_argument) {
        const std::size_t dollar = text.find('$');
        out.text += text.substr(0, dollar);
        if (dollar == std::string_view::npos) break;
        text.remove_prefix(dollar);
        const Reference reference = reference_at(text);
        if (reference.name.empty()) {
            out.text += '$';
        } else if (const auto found = values_.find(reference.name); found != values_.end()) {
            out.text += found->second;
        } else if (std::find(out.undefined.begin(), out.undefined.end(), reference.name) ==
                   out.undefined.end()) {
            out.undefined.emplace_back(reference.name);
        }
        text.remove_prefix(reference.length);
    }
    out.too_long = out.text.size() >= longest_argument;
    if (out.too_long) out.text.resize(longest_argument);
    return out;
}

}  // namespace batchai::plan

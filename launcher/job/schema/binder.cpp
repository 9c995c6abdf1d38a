// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/binder.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/schema/field_table.hpp"
#include "job/schema/schema_version.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

template <class Range, class T>
bool contains(const Range& range, const T& value) {
    return std::find(range.begin(), range.end(), value) != range.end();
}

// The known key that was probably meant; nothing for a key too long to be a slip.
std::optional<std::string_view> nearest_key(const Object& object, std::string_view key) {
    if (key.size() > 64) return std::nullopt;
    std::vector<std::string_view> names;
    for (const Field& field : object.fields)
        names.push_back(field.name);
    return base::nearest(key, names);
}

// The object, one level below this one or the properties, that has such a key.
std::string_view where_known(const Object& object, std::string_view key) {
    for (const Field& field : object.fields) {
        if (field.object != nullptr && field.kind == Kind::object &&
            field.object->find(key) != nullptr && field.group == Group::none) {
            return field.name;
        }
    }
    if (&object != &properties_object && properties_object.find(key) != nullptr) {
        return job_file_object.fields.front().name;
    }
    return {};
}

std::string list_of_names(const Object& object, std::string_view group) {
    std::string out;
    for (const Field& field : object.fields) {
        if (field.group_name != group) continue;
        if (!out.empty()) out += ", ";
        out += quote(field.name);
    }
    return out;
}

std::string how_to_add(const Field& field) {
    if (field.kind == Kind::object) return fmt::format("add {}: {{ ... }}", quote(field.name));
    return fmt::format("add {}: {}", quote(field.name), field.example);
}

std::string in_object(std::string_view name) {
    return name.empty() ? "at the top level" : fmt::format("in {}", quote(name));
}

}  // namespace

void Binder::bind(const Object& object, const Node& node, void* owner, const std::string& pointer,
                  std::string_view name) {
    std::vector<Given> given;
    std::vector<std::string_view> meant;
    for (const Member& member : node.members) {
        if (member.repeated || member.key.starts_with('$')) continue;
        bind_member(object, member, owner, pointer, given, meant);
    }
    if (complete_) missing(object, node, given, meant, name);
    groups(object, node, given, meant, name);
}

void Binder::bind_member(const Object& object, const Member& member, void* owner,
                         const std::string& pointer, std::vector<Given>& given,
                         std::vector<std::string_view>& meant) {
    const Field* field = object.find(member.key);
    if (field == nullptr) {
        const std::string_view guess = unknown_key(object, member);
        if (!guess.empty()) meant.push_back(guess);
        return;
    }
    if (field->read_only) {
        faults_.add(Fault::read_only, member.position,
                    fmt::format("{} is set by the service and ignored here", quote(field->name)),
                    "remove it");
        return;
    }
    if (member.value.type == NodeType::null && !field->required_in(schema_)) return;
    if (!belongs_to_schema(*field, member)) return;
    given.push_back({field, &member});
    const std::string below = pointer + "/" + std::string(field->name);
    positions_.add(below, member.value.position);
    bind_value(*field, member.value, owner, below);
}

// Reports the key; returns the field that was probably meant, if any.
std::string_view Binder::unknown_key(const Object& object, const Member& member) {
    const std::string_view home = where_known(object, member.key);
    if (!home.empty() && schema_ == SchemaVersion::v2018_05_01) {
        faults_.add(Fault::misplaced, member.position,
                    fmt::format("{} stands in the wrong place", quote(member.key)),
                    fmt::format("it belongs into {}", quote(home)));
        return {};
    }
    const auto guess = nearest_key(object, member.key);
    std::string hint = guess ? fmt::format("did you mean {}?", quote(*guess)) : std::string();
    if (schema_ == SchemaVersion::v2018_05_01) {
        faults_.add(Fault::unknown_key, member.position,
                    fmt::format("unknown key {}", quote(member.key)), std::move(hint));
    } else {
        faults_.add(Fault::unknown_key_ignored, member.position,
                    fmt::format("unknown key {} is ignored", quote(member.key)), std::move(hint));
    }
    return guess.value_or(std::string_view());
}

// False if the key has no effect in this version. A key of a later version is taken all the same.
bool Binder::belongs_to_schema(const Field& field, const Member& member) {
    if (schema_ > field.until) {
        faults_.add(Fault::other_schema, member.position,
                    fmt::format("{} belongs to schema {} and is ignored", quote(field.name),
                                name_of(field.until)),
                    field.instead.empty() ? std::string() : fmt::format("use {}", field.instead));
        return false;
    }
    if (schema_ < field.since) {
        faults_.add(Fault::other_schema, member.position,
                    fmt::format("{} came with schema {}, and the file declares {}",
                                quote(field.name), name_of(field.since), name_of(schema_)),
                    "it is followed; declare the later schema in \"$schema\"");
    }
    return true;
}

void Binder::bind_value(const Field& field, const Node& node, void* owner,
                        const std::string& pointer) {
    if (node.type == NodeType::broken) return;
    if (field.kind == Kind::list) {
        bind_list(field, node, owner, pointer);
    } else if (field.kind != Kind::object) {
        bind_scalar(field, node, owner);
    } else if (node.type == NodeType::object) {
        bind(*field.object, node, field.access.open(owner), pointer, field.name);
    } else {
        wrong_type(field, node);
    }
}

void Binder::bind_list(const Field& field, const Node& node, void* owner,
                       const std::string& pointer) {
    if (node.type != NodeType::array) {
        wrong_type(field, node);
        return;
    }
    std::size_t index = 0;
    for (const Node& item : node.items) {
        const std::string below = fmt::format("{}/{}", pointer, index++);
        void* element = field.access.open(owner);
        if (item.type == NodeType::object) {
            positions_.add(below, item.position);
            bind(*field.object, item, element, below, field.name);
        } else if (item.type != NodeType::broken) {
            faults_.add(Fault::wrong_type, item.position,
                        fmt::format("each element of {} must be an object", quote(field.name)));
        }
    }
}

void Binder::missing(const Object& object, const Node& node, const std::vector<Given>& given,
                     const std::vector<std::string_view>& meant, std::string_view name) {
    for (const Field& field : object.fields) {
        const bool is_given = std::any_of(given.begin(), given.end(),
                                          [&](const Given& g) { return g.field == &field; });
        if (!field.required_in(schema_) || is_given || contains(meant, field.name)) continue;
        faults_.add(Fault::missing, node.position,
                    fmt::format("{} is missing {}", quote(field.name), in_object(name)),
                    how_to_add(field));
    }
}

// Fields that exclude each other, and fields that make sense with another only.
void Binder::groups(const Object& object, const Node& node, const std::vector<Given>& given,
                    const std::vector<std::string_view>& meant, std::string_view name) {
    std::vector<std::string_view> seen;
    for (const Field& field : object.fields) {
        if (field.group == Group::none || contains(seen, field.group_name)) continue;
        seen.push_back(field.group_name);
        const Given* first = nullptr;
        for (const Given& other : given) {
            if (other.field->group_name != field.group_name) continue;
            if (first == nullptr) {
                first = &other;
                continue;
            }
            faults_.add(Fault::conflict, other.member->position,
                        fmt::format("{} contradicts {} on line {}", quote(other.field->name),
                                    quote(first->field->name), first->member->position.line),
                        fmt::format("keep only one {}", field.group_name));
        }
        const bool guessed = std::any_of(meant.begin(), meant.end(), [&](std::string_view key) {
            return object.find(key)->group_name == field.group_name;
        });
        if (first != nullptr || guessed || field.group != Group::exactly_one || !complete_)
            continue;
        const bool toolkit = &object == &properties_object;
        faults_.add(toolkit ? Fault::no_toolkit : Fault::missing, node.position,
                    fmt::format("no {} is given {}", field.group_name, in_object(name)),
                    fmt::format("add one of {}", list_of_names(object, field.group_name)));
    }
    for (const Given& entry : given) {
        const std::string_view needs = entry.field->needs;
        const bool met = needs.empty() || contains(meant, needs) ||
                         std::any_of(given.begin(), given.end(),
                                     [&](const Given& g) { return g.field->name == needs; });
        if (met) continue;
        faults_.add(Fault::conflict, entry.member->position,
                    fmt::format("{} has no use without {}", quote(entry.field->name), quote(needs)),
                    fmt::format("remove it, or add {}", quote(needs)));
    }
}

void Binder::check_mounts() {
    std::map<std::string, const Mount*> by_path;
    for (const Mount& mount : mounts_) {
        const auto [entry, is_new] = by_path.emplace(mount.path, &mount);
        if (!is_new) {
            faults_.add(Fault::overlapping_mounts, mount.position,
                        fmt::format("two mounts have the path {}; the other is on line {}",
                                    quote(mount.path), entry->second->position.line),
                        "give each its own \"relativeMountPath\"");
        }
    }
    for (const Mount& mount : mounts_) {
        for (std::size_t slash = mount.path.find('/'); slash != std::string::npos;
             slash = mount.path.find('/', slash + 1)) {
            const auto outer = by_path.find(mount.path.substr(0, slash));
            if (outer == by_path.end()) continue;
            faults_.add(
                Fault::overlapping_mounts, mount.position,
                fmt::format("the mount {} lies inside the mount {} on line {}", quote(mount.path),
                            quote(outer->first), outer->second->position.line),
                "give each its own \"relativeMountPath\"");
        }
    }
}

}  // namespace batchai::job

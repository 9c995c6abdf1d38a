// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/binder.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/schema/checks.hpp"
#include "job/schema/field.hpp"
#include "job/schema/field_table.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

template <class Range, class T>
bool contains(const Range& range, const T& value) {
    return std::find(range.begin(), range.end(), value) != range.end();
}

// Returns the known key that was probably meant; nothing for a key that is too long to be a typing
// error.
std::optional<std::string_view> nearest_key(const Object& object, std::string_view key) {
    if (key.size() > 64) return std::nullopt;
    std::vector<std::string_view> names;
    for (const Field& field : object.fields)
        names.push_back(field.name);
    return base::nearest(key, names);
}

// Returns the name of the object that has such a key: an object directly below this one, or
// "properties". Returns an empty name if there is none.
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
    if (member.value.type == NodeType::null && !field->required_in(schema_)) return;
    if (field->read_only) {
        ignored(*field, member);
        return;
    }
    if (!belongs_to_schema(*field, member)) return;
    given.push_back({field, &member});
    const std::string below = pointer + "/" + std::string(field->name);
    positions_.add(below, member.value.position);
    bind_value(*field, member.value, owner, below);
}

void Binder::ignored(const Field& field, const Member& member) {
    if (!belongs_to_schema(field, member)) return;
    if (field.no_meaning.empty())
        faults_.add(Fault::read_only, member.position,
                    fmt::format("{} is set by the service and ignored here", quote(field.name)),
                    "remove it");
    else
        faults_.add(Fault::no_effect, member.position,
                    fmt::format("{} has no effect: {}", quote(field.name), field.no_meaning),
                    "remove it");
}

// Reports the key. Returns the key that was probably meant, if any.
std::string_view Binder::unknown_key(const Object& object, const Member& member) {
    for (const RefusedKey& refused : object.refused) {
        if (refused.name != member.key) continue;
        faults_.add(Fault::misplaced, member.position,
                    fmt::format("{} cannot be set here", quote(member.key)),
                    std::string(refused.instead));
        return {};
    }
    const std::string_view home = where_known(object, member.key);
    if (!home.empty() && schema_ == SchemaVersion::v2018_05_01) {
        faults_.add(Fault::misplaced, member.position,
                    fmt::format("{} is in the wrong place", quote(member.key)),
                    fmt::format("it belongs in {}", quote(home)));
        return {};
    }
    const auto guess = nearest_key(object, member.key);
    std::string hint =
        guess ? fmt::format("did you mean {}?", quote(*guess)) : std::string(object.other_keys);
    if (member.key.empty())
        hint =
            "did the shell replace \"$schema\" and other words that begin with \"$\"? Quote the "
            "word that ends a here-document: << 'EOF'";
    if (schema_ == SchemaVersion::v2018_05_01) {
        faults_.add(Fault::unknown_key, member.position,
                    fmt::format("unknown key {}", quote(member.key)), std::move(hint));
    } else {
        faults_.add(Fault::unknown_key_ignored, member.position,
                    fmt::format("unknown key {} is ignored", quote(member.key)), std::move(hint));
    }
    return guess.value_or(std::string_view());
}

// Returns false if the key has no effect in this schema version. A key of a later version takes
// effect, with a warning.
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
                    fmt::format("{} was added in schema {}, but the file declares {}",
                                quote(field.name), name_of(field.since), name_of(schema_)),
                    "it takes effect anyway; declare the later schema in \"$schema\"");
    }
    return true;
}

void Binder::bind_value(const Field& field, const Node& node, void* owner,
                        const std::string& pointer) {
    if (node.type == NodeType::broken) return;
    if (field.kind == Kind::list) {
        bind_list(field, node, owner, pointer);
    } else if (field.kind == Kind::words) {
        bind_words(field, node, owner, pointer);
    } else if (field.kind == Kind::own) {
        field.access.read(owner, node, faults_);
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

void Binder::bind_words(const Field& field, const Node& node, void* owner,
                        const std::string& pointer) {
    if (node.type != NodeType::array) {
        wrong_type(field, node);
        return;
    }
    if (node.items.empty())
        faults_.add(Fault::bad_text, node.position,
                    fmt::format("{} must not be empty", quote(field.name)),
                    fmt::format("for example {}", field.example));
    std::size_t index = 0;
    for (const Node& item : node.items) {
        positions_.add(fmt::format("{}/{}", pointer, index++), item.position);
        if (item.type == NodeType::string) {
            if (const auto value = text(field, item)) field.access.store(owner, *value);
        } else if (item.type != NodeType::broken) {
            faults_.add(Fault::wrong_type, item.position,
                        fmt::format("each element of {} must be a string", quote(field.name)),
                        fmt::format("for example {}", field.example));
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

// Checks the fields that exclude each other, and the fields that need another.
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
        faults_.add(
            Fault::conflict, entry.member->position,
            fmt::format("{} has no effect without {}", quote(entry.field->name), quote(needs)),
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

namespace {

std::string_view wanted(Kind kind) {
    switch (kind) {
        case Kind::integer:
            return "an integer";
        case Kind::boolean:
            return "true or false";
        case Kind::object:
            return "an object";
        case Kind::list:
        case Kind::words:
            return "an array";
        case Kind::text:
        case Kind::choice:
        case Kind::duration:
        case Kind::own:
            break;
    }
    return "a string";
}

// Describes a value without quoting a string, which may be a secret in the wrong place.
std::string found(const Node& node) {
    switch (node.type) {
        case NodeType::null:
            return "null";
        case NodeType::boolean:
            return node.boolean ? "true" : "false";
        case NodeType::integer:
        case NodeType::real:
            return "a number";
        case NodeType::string:
            return "a string";
        case NodeType::array:
            return "an array";
        case NodeType::object:
            return "an object";
        case NodeType::broken:
            break;
    }
    return "something else";
}

std::string hint_for(const Field& field, const Node& node) {
    const bool wants_number = field.kind == Kind::integer || field.kind == Kind::boolean;
    if (wants_number && node.type == NodeType::string) return "write it without quotes";
    if (wanted(field.kind) == "a string" &&
        (node.type == NodeType::integer || node.type == NodeType::real ||
         node.type == NodeType::boolean)) {
        return "write it in double quotes";
    }
    if (field.kind == Kind::list && node.type == NodeType::object) return "put it into [ ]";
    if (field.kind == Kind::words && node.type == NodeType::string) return "put it into [ ]";
    if (field.kind == Kind::object && node.type == NodeType::array) return "leave out the [ ]";
    return field.example.empty() ? std::string() : fmt::format("for example {}", field.example);
}

}  // namespace

void Binder::wrong_type(const Field& field, const Node& node) {
    faults_.add(
        Fault::wrong_type, node.position,
        fmt::format("{} must be {}, found {}", quote(field.name), wanted(field.kind), found(node)),
        hint_for(field, node));
}

void Binder::bind_scalar(const Field& field, const Node& node, void* owner) {
    std::optional<Value> value;
    switch (field.kind) {
        case Kind::text:
            value = text(field, node);
            break;
        case Kind::integer:
            value = integer(field, node);
            break;
        case Kind::choice:
            value = choice(field, node);
            break;
        case Kind::duration:
            value = duration(field, node);
            break;
        case Kind::boolean:
            if (node.type == NodeType::boolean) {
                value = node.boolean;
            } else {
                wrong_type(field, node);
            }
            break;
        case Kind::object:
        case Kind::list:
        case Kind::words:
        case Kind::own:
            break;
    }
    if (value) field.access.store(owner, *value);
}

std::optional<Value> Binder::text(const Field& field, const Node& node) {
    if (node.type != NodeType::string) {
        wrong_type(field, node);
        return std::nullopt;
    }
    if (auto failure = check_text(field.check, node.text)) {
        const bool own_words = failure->fault == Fault::storage_account;
        faults_.add(failure->fault, node.position,
                    own_words ? std::move(failure->message)
                              : fmt::format("{} {}", quote(field.name), failure->message),
                    std::move(failure->hint));
        return std::nullopt;
    }
    remember(field, node);
    return node.text;
}

// Checks reserved names and line ends, and keeps the values that must be compared with others in
// the file.
void Binder::remember(const Field& field, const Node& node) {
    if (node.text.find('\r') != std::string::npos)
        faults_.add(
            Fault::carriage_return, node.position,
            fmt::format("{} has a carriage return (\\r), as in the line ends of Windows",
                        quote(field.name)),
            R"(write only \n where a line ends: a shell takes \r for part of the last word)");
    if (field.check == Check::relative_mount_path) mounts_.push_back({node.text, node.position});
    constexpr std::string_view reserved = "AZ_BATCHAI_";
    if (field.check == Check::variable_name && node.text.starts_with(reserved)) {
        faults_.add(Fault::reserved_name, node.position,
                    fmt::format("{} is a variable of the service", quote(node.text)),
                    fmt::format("choose a name that does not start with {}", reserved));
    }
    if (field.unique.empty()) return;
    const auto [entry, is_new] = names_[field.unique].emplace(node.text, node.position);
    if (is_new) return;
    faults_.add(Fault::duplicate_name, node.position,
                fmt::format("the {} {} is given twice; the first is on line {}", field.unique,
                            quote_name(node.text), entry->second.line),
                "remove or rename one of the two");
}

std::optional<Value> Binder::integer(const Field& field, const Node& node) {
    if (node.type == NodeType::real) {
        faults_.add(
            Fault::not_an_integer, node.position,
            fmt::format("{} must be an integer, found {}", quote(field.name), printable(node.text)),
            fmt::format("for example {}", field.example));
        return std::nullopt;
    }
    if (node.type != NodeType::integer) {
        wrong_type(field, node);
        return std::nullopt;
    }
    const auto number = base::number_in<std::int64_t>(node.text);
    if (!number || *number < field.minimum || *number > field.maximum) {
        faults_.add(
            Fault::out_of_range, node.position,
            fmt::format("{} must be from {} to {}, found {}", quote(field.name), field.minimum,
                        field.maximum, node.text.size() > 24 ? "a larger number" : node.text));
        return std::nullopt;
    }
    return *number;
}

std::optional<Value> Binder::choice(const Field& field, const Node& node) {
    if (node.type != NodeType::string) {
        wrong_type(field, node);
        return std::nullopt;
    }
    std::string allowed;
    for (std::size_t i = 0; i < field.choices.size(); ++i) {
        if (base::lower(field.choices[i]) == base::lower(node.text)) {
            return static_cast<std::int64_t>(i);
        }
        allowed += (i == 0 ? "" : i + 1 == field.choices.size() ? " or " : ", ");
        allowed += quote(field.choices[i]);
    }
    const auto guess =
        node.text.size() > 64 ? std::nullopt : base::nearest(node.text, field.choices);
    faults_.add(
        Fault::not_a_choice, node.position,
        fmt::format("{} must be {}, found {}", quote(field.name), allowed, quote(node.text)),
        guess ? fmt::format("did you mean {}?", quote(*guess)) : std::string());
    return std::nullopt;
}

std::optional<Value> Binder::duration(const Field& field, const Node& node) {
    if (node.type != NodeType::string) {
        wrong_type(field, node);
        return std::nullopt;
    }
    const auto seconds = parse_duration(node.text);
    if (!seconds) {
        faults_.add(Fault::bad_duration, node.position,
                    fmt::format("{} is not a duration: {}", quote(field.name), quote(node.text)),
                    R"(write it as "P7D", "PT1H30M", "7.00:00:00" or "1:30:00")");
        return std::nullopt;
    }
    if (seconds->count() < field.minimum || seconds->count() > field.maximum) {
        faults_.add(
            Fault::out_of_range, node.position,
            fmt::format("{} must be from {} to {}, found {}", quote(field.name),
                        format_duration(std::chrono::seconds(field.minimum)),
                        format_duration(std::chrono::seconds(field.maximum)), quote(node.text)));
        return std::nullopt;
    }
    return static_cast<std::int64_t>(seconds->count());
}

}  // namespace batchai::job

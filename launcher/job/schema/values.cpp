// SPDX-License-Identifier: GPL-2.0-or-later
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/schema/binder.hpp"
#include "job/schema/checks.hpp"
#include "job/schema/duration.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

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
            return "an array";
        case Kind::text:
        case Kind::choice:
        case Kind::duration:
            break;
    }
    return "a string";
}

// Says no string's text: it may be a secret in the wrong place.
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

// What has to be compared with other values of the file.
void Binder::remember(const Field& field, const Node& node) {
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
                            quote(node.text), entry->second.line),
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
    std::int64_t number = 0;
    const char* end = node.text.data() + node.text.size();
    const auto [rest, error] = std::from_chars(node.text.data(), end, number);
    if (error != std::errc() || rest != end || number < field.minimum || number > field.maximum) {
        faults_.add(
            Fault::out_of_range, node.position,
            fmt::format("{} must be from {} to {}, found {}", quote(field.name), field.minimum,
                        field.maximum, node.text.size() > 24 ? "a larger number" : node.text));
        return std::nullopt;
    }
    return number;
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

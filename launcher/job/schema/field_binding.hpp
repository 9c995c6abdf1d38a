// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "job/schema/field.hpp"

// Builders that bind a key to a member of the model:
//   text<&HorovodSettings::python_script_file_path>("pythonScriptFilePath", "…", "\"a.py\"")
namespace batchai::job {

template <class T>
struct Bare {
    using Type = T;
    static constexpr bool optional = false;
};
template <class T>
struct Bare<std::optional<T>> {
    using Type = T;
    static constexpr bool optional = true;
};

template <auto Pointer>
struct MemberOf;
template <class O, class T, T O::*Pointer>
struct MemberOf<Pointer> {
    using Owner = O;
    using Held = T;                       // std::optional<X>, std::vector<X> or X
    using Type = typename Bare<T>::Type;  // X, or std::vector<X>
    static constexpr bool optional = Bare<T>::optional;

    static T& of(void* owner) { return static_cast<O*>(owner)->*Pointer; }
    static const T& of(const void* owner) { return static_cast<const O*>(owner)->*Pointer; }
};

template <auto Pointer>
void store_value(void* owner, const Value& value) {
    using M = MemberOf<Pointer>;
    using T = typename M::Type;
    if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, bool>) {
        M::of(owner) = std::get<T>(value);
    } else {
        M::of(owner) = static_cast<T>(std::get<std::int64_t>(value));
    }
}

template <class T>
Value to_value(const T& held) {
    if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, bool>) {
        return held;
    } else if constexpr (std::is_same_v<T, std::chrono::seconds>) {
        return static_cast<std::int64_t>(held.count());
    } else {
        return static_cast<std::int64_t>(held);
    }
}

template <auto Pointer>
std::optional<Value> load_value(const void* owner) {
    using M = MemberOf<Pointer>;
    const auto& held = M::of(owner);
    if constexpr (M::optional) {
        if (!held) return std::nullopt;
        return to_value(*held);
    } else {
        return to_value(held);
    }
}

template <auto Pointer>
constexpr Field scalar(Kind kind, std::string_view name, std::string_view doc,
                       std::string_view example) {
    Field field;
    field.name = name;
    field.kind = kind;
    field.access.store = store_value<Pointer>;
    field.access.load = load_value<Pointer>;
    field.doc = doc;
    field.example = example;
    return field;
}

template <auto Pointer>
constexpr Field text(std::string_view name, std::string_view doc, std::string_view example) {
    return scalar<Pointer>(Kind::text, name, doc, example);
}

template <auto Pointer>
constexpr Field boolean(std::string_view name, std::string_view doc, std::string_view example) {
    return scalar<Pointer>(Kind::boolean, name, doc, example);
}

template <auto Pointer>
constexpr Field integer(std::string_view name, std::int64_t minimum, std::int64_t maximum,
                        std::string_view doc, std::string_view example) {
    Field field = scalar<Pointer>(Kind::integer, name, doc, example);
    field.minimum = minimum;
    field.maximum = maximum;
    return field;
}

// The bounds are in seconds.
template <auto Pointer>
constexpr Field duration(std::string_view name, std::int64_t minimum, std::int64_t maximum,
                         std::string_view doc, std::string_view example) {
    Field field = scalar<Pointer>(Kind::duration, name, doc, example);
    field.minimum = minimum;
    field.maximum = maximum;
    return field;
}

// `choices` must be in the order of the enumerators.
template <auto Pointer>
constexpr Field choice(std::string_view name, std::span<const std::string_view> choices,
                       std::string_view doc, std::string_view example) {
    Field field = scalar<Pointer>(Kind::choice, name, doc, example);
    field.choices = choices;
    return field;
}

template <auto Pointer>
void* open_member(void* owner) {
    using M = MemberOf<Pointer>;
    auto& held = M::of(owner);
    if constexpr (M::optional) {
        if (!held) held.emplace();
        return &*held;
    } else {
        return &held;
    }
}

template <auto Pointer>
std::size_t count_member(const void* owner) {
    using M = MemberOf<Pointer>;
    if constexpr (M::optional) {
        return M::of(owner) ? 1 : 0;
    } else {
        return M::of(owner) == typename M::Type{} ? 0 : 1;
    }
}

template <auto Pointer>
const void* at_member(const void* owner, std::size_t /*index*/) {
    using M = MemberOf<Pointer>;
    if constexpr (M::optional) {
        return &*M::of(owner);
    } else {
        return &M::of(owner);
    }
}

constexpr Field composite(Kind kind, std::string_view name, const Object& object,
                          std::string_view doc, Access access) {
    Field field;
    field.name = name;
    field.kind = kind;
    field.access = access;
    field.object = &object;
    field.doc = doc;
    return field;
}

// Binds a key to a struct or an optional struct. A plain struct counts as absent while it equals
// its default.
template <auto Pointer>
constexpr Field object(std::string_view name, const Object& fields, std::string_view doc) {
    return composite(
        Kind::object, name, fields, doc,
        {nullptr, nullptr, open_member<Pointer>, count_member<Pointer>, at_member<Pointer>});
}

// Binds a key to an object whose fields are members of the enclosing struct. The object counts as
// present if the member `Pointer` is.
template <auto Pointer>
constexpr Field object_within(std::string_view name, const Object& fields, std::string_view doc) {
    using M = MemberOf<Pointer>;
    const Access access = {nullptr, nullptr, [](void* owner) { return owner; },
                           [](const void* owner) -> std::size_t {
                               if constexpr (M::optional) return M::of(owner) ? 1 : 0;
                               return 1;
                           },
                           [](const void* owner, std::size_t) { return owner; }};
    return composite(Kind::object, name, fields, doc, access);
}

template <auto Pointer>
constexpr Field list(std::string_view name, const Object& element, std::string_view doc) {
    using M = MemberOf<Pointer>;
    const Access access = {
        nullptr, nullptr, [](void* owner) -> void* { return &M::of(owner).emplace_back(); },
        [](const void* owner) { return M::of(owner).size(); },
        [](const void* owner, std::size_t i) -> const void* { return &M::of(owner)[i]; }};
    return composite(Kind::list, name, element, doc, access);
}

// Binds a key to a vector of texts, each of which must pass the field's check.
template <auto Pointer>
constexpr Field words(std::string_view name, std::string_view doc, std::string_view example) {
    using M = MemberOf<Pointer>;
    Field field;
    field.name = name;
    field.kind = Kind::words;
    field.access.store = [](void* owner, const Value& value) {
        M::of(owner).push_back(std::get<std::string>(value));
    };
    field.access.count = [](const void* owner) { return M::of(owner).size(); };
    field.access.at = [](const void* owner, std::size_t i) -> const void* {
        return &M::of(owner)[i];
    };
    field.doc = doc;
    field.example = example;
    return field;
}

// Binds a key to one of JobSpec's toolkits. The object's description is the key's, too.
template <class Settings>
constexpr Field toolkit(const Object& fields) {
    const Access access = {
        nullptr, nullptr,
        [](void* owner) -> void* {
            return &static_cast<JobSpec*>(owner)->toolkit.emplace<Settings>();
        },
        [](const void* owner) -> std::size_t {
            const auto& held = static_cast<const JobSpec*>(owner)->toolkit;
            return std::holds_alternative<Settings>(held) ? 1 : 0;
        },
        [](const void* owner, std::size_t) -> const void* {
            return std::get_if<Settings>(&static_cast<const JobSpec*>(owner)->toolkit);
        }};
    return composite(Kind::object, Settings::settings_key, fields, fields.doc, access)
        .in_group(Group::exactly_one, "toolkit");
}

}  // namespace batchai::job

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/timestamp.hpp"

// Structs as JSON records. A struct is described once, by a table of its fields, which serves for
// reading, for writing and for visiting its texts:
//
//     struct Phase {
//         std::string name;
//         static constexpr auto fields(auto field) {
//             return std::tuple{field("name", &Phase::name), …};
//         }
//     };
//
// It is a template, so that only what reads, writes or visits records compiles it: as an object,
// the tables took the compiler as long as everything else in a typical file of the launcher.
//
// An enum is described by a function beside it:
//
//     constexpr auto json_words(EndedBy /*type*/) {
//         return std::array{std::pair{std::string_view("program"), EndedBy::program}, …};
//     }
//
// Members may be bool, int, int64, std::string, Time, minutes, Value, an enum with its words,
// another described struct, or an optional (null), vector (array) or map from string (object) of
// these.
namespace batchai::base {

// May be specialised for a struct that cannot have its table itself.
template <typename Struct>
struct RecordOf {
    static constexpr auto fields(auto field) { return Struct::fields(field); }
};

// The same for an enum. `words` is an array of (word, value) pairs.
template <typename Enum>
struct WordsOf {
    static constexpr auto words = json_words(Enum{});
};

template <typename Struct, typename Member>
struct RecordField {
    std::string_view key;
    Member Struct::*member;
    bool may_be_missing = false;  // in older records; the member then keeps its default
    std::int64_t least = std::numeric_limits<std::int64_t>::min();
    std::int64_t most = std::numeric_limits<std::int64_t>::max();

    [[nodiscard]] constexpr RecordField or_missing() const {
        RecordField out = *this;
        out.may_be_missing = true;
        return out;
    }
    // Must be used only for members that are numbers, including minutes.
    [[nodiscard]] constexpr RecordField within(
        std::int64_t low, std::int64_t high = std::numeric_limits<std::int64_t>::max()) const {
        RecordField out = *this;
        out.least = low;
        out.most = high;
        return out;
    }
};

// What tables call `field`.
struct MakeField {
    template <typename Struct, typename Member>
    [[nodiscard]] constexpr RecordField<Struct, Member> operator()(std::string_view key,
                                                                   Member Struct::*member) const {
        return {key, member};
    }
};

// The table of a struct, a tuple of RecordField.
template <typename Struct>
inline constexpr auto fields_of = RecordOf<Struct>::fields(MakeField{});

template <typename Enum>
[[nodiscard]] constexpr std::string_view word_of(Enum value) {
    for (const auto& [word, candidate] : WordsOf<Enum>::words) {
        if (candidate == value) return word;
    }
    return {};
}

template <typename Enum>
[[nodiscard]] constexpr std::optional<Enum> from_word(std::string_view text) {
    for (const auto& [word, candidate] : WordsOf<Enum>::words) {
        if (word == text) return candidate;
    }
    return std::nullopt;
}

// Tells whether a record may have keys that its table does not name.
enum class UnknownKeys { passed_over, refused };

namespace record_detail {

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
inline constexpr bool is_vector = false;
template <typename T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <typename T>
inline constexpr bool is_map = false;
template <typename T>
inline constexpr bool is_map<std::map<std::string, T>> = true;

template <typename T>
Value to_value(const T& from) {
    if constexpr (std::is_same_v<T, Value> || std::is_same_v<T, bool> ||
                  std::is_same_v<T, std::string>) {
        return Value(from);
    } else if constexpr (std::is_integral_v<T>) {
        return Value(static_cast<std::int64_t>(from));
    } else if constexpr (std::is_same_v<T, Time>) {
        return Value(to_iso8601(from));
    } else if constexpr (std::is_same_v<T, std::chrono::minutes>) {
        return Value(static_cast<std::int64_t>(from.count()));
    } else if constexpr (std::is_enum_v<T>) {
        return Value(word_of(from));
    } else if constexpr (is_optional<T>) {
        return from ? record_detail::to_value(*from) : Value();
    } else if constexpr (is_vector<T>) {
        Value::Array out;
        out.reserve(from.size());
        for (const auto& item : from)
            out.push_back(record_detail::to_value(item));
        return Value(std::move(out));
    } else if constexpr (is_map<T>) {
        Value::Object out;
        for (const auto& [key, item] : from)
            out.emplace_back(key, record_detail::to_value(item));
        return Value(std::move(out));
    } else {
        Value::Object out;
        std::apply(
            [&](const auto&... fields) {
                (out.emplace_back(std::string(fields.key),
                                  record_detail::to_value(from.*(fields.member))),
                 ...);
            },
            fields_of<T>);
        return Value(std::move(out));
    }
}

template <typename T, typename Visit>
void each_text(T& from, const Visit& visit) {
    using Type = std::remove_const_t<T>;
    if constexpr (std::is_same_v<Type, std::string>) {
        visit(from);
    } else if constexpr (is_optional<Type>) {
        if (from) record_detail::each_text(*from, visit);
    } else if constexpr (is_vector<Type>) {
        for (auto& item : from)
            record_detail::each_text(item, visit);
    } else if constexpr (is_map<Type>) {
        for (auto& [key, item] : from)
            record_detail::each_text(item, visit);
    } else if constexpr (!std::is_arithmetic_v<Type> && !std::is_enum_v<Type> &&
                         !std::is_same_v<Type, Time> &&
                         !std::is_same_v<Type, std::chrono::minutes>) {
        std::apply(
            [&](const auto&... fields) {
                (record_detail::each_text(from.*(fields.member), visit), ...);
            },
            fields_of<Type>);
    }
}

// Reads values and keeps the first fault with its place, as in "\"steps[1].kind\" is not a string".
class Reader {
  public:
    explicit Reader(UnknownKeys unknown_keys = UnknownKeys::passed_over)
        : unknown_keys_(unknown_keys) {}

    [[nodiscard]] const std::string& fault() const { return fault_; }

    template <typename T>
    bool read(const Value& from, T& into, const std::string& place) {
        if constexpr (std::is_same_v<T, Value>) {
            into = from;
            return true;
        } else if constexpr (std::is_same_v<T, bool>) {
            return assign(from.boolean(), into, place, "true or false");
        } else if constexpr (std::is_same_v<T, std::string>) {
            return assign(from.string(), into, place, "a string");
        } else if constexpr (std::is_same_v<T, Time>) {
            return read_time(from, into, place);
        } else if constexpr (std::is_integral_v<T>) {
            std::int64_t number = 0;
            if (!read_number(from, number, std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::max(), place))
                return false;
            into = static_cast<T>(number);
            return true;
        } else if constexpr (std::is_same_v<T, std::chrono::minutes>) {
            std::int64_t number = 0;
            if (!read_number(from, number, std::numeric_limits<std::int64_t>::min(),
                             std::numeric_limits<std::int64_t>::max(), place))
                return false;
            into = std::chrono::minutes(number);
            return true;
        } else if constexpr (std::is_enum_v<T>) {
            std::string word;
            if (!read(from, word, place)) return false;
            const auto value = from_word<T>(word);
            if (!value) return complain(place, " has the unknown value \"" + word + "\"");
            into = *value;
            return true;
        } else if constexpr (is_optional<T>) {
            if (from.is_null()) {
                into.reset();
                return true;
            }
            return read(from, into.emplace(), place);
        } else if constexpr (is_vector<T>) {
            return read_array(from, into, place);
        } else if constexpr (is_map<T>) {
            return read_map(from, into, place);
        } else {
            return read_struct(from, into, place);
        }
    }

    template <typename T>
    bool read_struct(const Value& from, T& into, const std::string& place) {
        if (!from.is_object()) return complain(place, " is not an object");
        const bool complete = std::apply(
            [&](const auto&... fields) {
                return (read_field(from, into, fields, place) && ...) &&
                       (unknown_keys_ == UnknownKeys::passed_over ||
                        only_known(from, {fields.key...}, place));
            },
            fields_of<T>);
        return complete;
    }

    // Notes a fault. Always returns false, for read() to return.
    bool complain(const std::string& place, const std::string& what);

  private:
    template <typename Source, typename T>
    bool assign(const Source* source, T& into, const std::string& place, const char* what) {
        if (source == nullptr) return complain(place, std::string(" is not ") + what);
        into = *source;
        return true;
    }

    bool read_number(const Value& from, std::int64_t& into, std::int64_t least, std::int64_t most,
                     const std::string& place);
    bool read_time(const Value& from, Time& into, const std::string& place);
    bool only_known(const Value& from, const std::vector<std::string_view>& keys,
                    const std::string& place);
    static const Value* member(const Value& object, std::string_view key);
    static std::string joined(const std::string& place, std::string_view key);

    template <typename T>
    bool read_array(const Value& from, std::vector<T>& into, const std::string& place) {
        const auto* items = from.array();
        if (items == nullptr) return complain(place, " is not an array");
        into.clear();
        for (const Value& item : *items) {
            const std::string here = place + "[" + std::to_string(into.size()) + "]";
            T value{};
            if (!read(item, value, here)) return false;
            into.push_back(std::move(value));
        }
        return true;
    }

    template <typename T>
    bool read_map(const Value& from, std::map<std::string, T>& into, const std::string& place) {
        const auto* members = from.object();
        if (members == nullptr) return complain(place, " is not an object");
        into.clear();
        for (const auto& [key, value] : *members) {
            if (!read(value, into[key], joined(place, key))) return false;
        }
        return true;
    }

    // A struct may have fields of its base class.
    template <typename Struct, typename Base, typename Member>
    bool read_field(const Value& from, Struct& into, const RecordField<Base, Member>& field,
                    const std::string& place) {
        const std::string here = joined(place, field.key);
        const Value* const value = member(from, field.key);
        if (value == nullptr) return field.may_be_missing || complain(here, " is missing");
        if constexpr (std::is_same_v<Member, std::chrono::minutes> ||
                      (std::is_integral_v<Member> && !std::is_same_v<Member, bool>)) {
            std::int64_t number = 0;
            if (!read_number(*value, number, field.least, field.most, here)) return false;
        }
        return read(*value, into.*(field.member), here);
    }

    UnknownKeys unknown_keys_;
    std::string fault_;
};

// Returns the document, or an error that says what is wrong with the text.
[[nodiscard]] Result<Value> parse_with_schema(std::string_view text, std::string_view schema);
[[nodiscard]] std::string print_with_schema(const Value& value, std::string_view schema);

}  // namespace record_detail

// Reads documents that this program has not written: single values of any of the types above. Keeps
// the first fault with the place that the caller names.
using ValueReader = record_detail::Reader;

// Returns the record as JSON text: "schema" first, then the fields in the order of the table.
template <typename T>
[[nodiscard]] std::string to_record(const T& from, std::string_view schema) {
    return record_detail::print_with_schema(record_detail::to_value(from), schema);
}

// Reads what to_record wrote into a struct that holds its defaults. The error says which key is
// wrong and how; the caller adds which file it is.
template <typename T>
[[nodiscard]] Result<T> from_record(std::string_view text, std::string_view schema, T defaults = {},
                                    UnknownKeys unknown_keys = UnknownKeys::passed_over) {
    auto root = TRY(record_detail::parse_with_schema(text, schema));
    record_detail::Reader reader(unknown_keys);
    if (!reader.read_struct(root, defaults, {})) return fail(reader.fault());
    return defaults;
}

// Returns a described struct as a value without a schema, to be a part of something else.
template <typename T>
[[nodiscard]] Value to_value(const T& from) {
    return record_detail::to_value(from);
}

template <typename T>
[[nodiscard]] Result<T> from_value(const Value& from, T defaults = {},
                                   UnknownKeys unknown_keys = UnknownKeys::passed_over) {
    record_detail::Reader reader(unknown_keys);
    if (!reader.read(from, defaults, {})) return fail(reader.fault());
    return defaults;
}

// Calls `visit` with each text of a described struct: all strings, also those in optionals, arrays,
// maps and other structs, but not the keys of maps.
template <typename T, typename Visit>
void each_text(T& record, const Visit& visit) {
    record_detail::each_text(record, visit);
}

}  // namespace batchai::base

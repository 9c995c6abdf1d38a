// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"

namespace batchai::base {

// A JSON value. Records are written from it and read into it, and commands answer with it. An
// object keeps the order of insertion, because the table of a query shows its columns in the
// query's order.
class Value {
  public:
    using Array = std::vector<Value>;
    using Member = std::pair<std::string, Value>;
    using Object = std::vector<Member>;

    Value() = default;
    Value(std::nullptr_t) {}
    Value(bool flag) : data_(flag) {}
    Value(int number) : data_(std::int64_t{number}) {}
    Value(std::int64_t number) : data_(number) {}
    Value(double number) : data_(number) {}
    Value(const char* text) : data_(std::string(text)) {}
    Value(std::string_view text) : data_(std::string(text)) {}
    Value(std::string text) : data_(std::move(text)) {}
    Value(Array items) : data_(std::move(items)) {}
    Value(Object members) : data_(std::move(members)) {}

    [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
    [[nodiscard]] bool is_string() const { return string() != nullptr; }
    [[nodiscard]] bool is_array() const { return array() != nullptr; }
    [[nodiscard]] bool is_object() const { return object() != nullptr; }
    [[nodiscard]] bool is_scalar() const { return !is_null() && !is_array() && !is_object(); }
    [[nodiscard]] bool is_number() const { return integer() != nullptr || real() != nullptr; }

    // These functions return the value if it is of that kind, else null.
    [[nodiscard]] const bool* boolean() const { return std::get_if<bool>(&data_); }
    [[nodiscard]] const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data_); }
    [[nodiscard]] const double* real() const { return std::get_if<double>(&data_); }
    [[nodiscard]] const std::string* string() const { return std::get_if<std::string>(&data_); }
    [[nodiscard]] const Array* array() const { return std::get_if<Array>(&data_); }
    [[nodiscard]] Array* array() { return std::get_if<Array>(&data_); }
    [[nodiscard]] const Object* object() const { return std::get_if<Object>(&data_); }

    // Returns a member of an object, or a null value if this is not an object or has no such
    // member.
    [[nodiscard]] const Value& operator[](std::string_view key) const;
    // Sets a member. A value that is not an object becomes one.
    void set(std::string_view key, Value value);

    bool operator==(const Value&) const = default;

  private:
    std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
};

// Returns the members by key in byte order, which is the order of JSON and TSV output.
[[nodiscard]] std::vector<const Value::Member*> sorted_members(const Value::Object& object);

// Returns a number as JSON writes it: "4", "50000.0", "0.25". A number that JSON cannot express
// (infinity) becomes "null".
[[nodiscard]] std::string number_text(double number);

enum class Colour { off, on };
enum class KeyOrder { inserted, sorted };

// Reads JSON text. Nesting is limited to 64 levels. `where` of the error is the given one, followed
// by the line and column of the fault.
[[nodiscard]] Result<Value> parse_json(std::string_view text, std::string_view where);

// Prints a value as JSON text with an indent of two blanks and one newline at the end. Non-ASCII
// characters are kept; control characters and DEL are escaped.
[[nodiscard]] std::string format_json(const Value& value, KeyOrder order = KeyOrder::inserted,
                                      Colour colour = Colour::off);

}  // namespace batchai::base

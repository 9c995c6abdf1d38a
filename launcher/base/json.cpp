// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>

#include <fmt/format.h>
#include <jsoncons/json_reader.hpp>
#include <jsoncons/json_visitor.hpp>

namespace batchai::base {
namespace {

constexpr int deepest_nesting = 64;

// Builds a value directly from the parser's events, without a document of jsoncons in between.
class Builder final : public jsoncons::json_visitor {
  public:
    [[nodiscard]] Value take() { return std::move(root_); }

  private:
    using Tag = jsoncons::semantic_tag;
    using Context = jsoncons::ser_context;

    bool add(Value value) {
        if (open_.empty()) {
            root_ = std::move(value);
        } else if (Level& level = open_.back(); level.is_object) {
            level.members.emplace_back(std::move(level.key), std::move(value));
        } else {
            level.items.push_back(std::move(value));
        }
        return true;
    }

    void visit_flush() override {}
    bool visit_begin_object(Tag /*tag*/, const Context& /*at*/, std::error_code& /*ec*/) override {
        Level& level = open_.emplace_back();
        level.is_object = true;
        level.members.reserve(8);
        return true;
    }
    bool visit_end_object(const Context& /*at*/, std::error_code& /*ec*/) override {
        Value::Object members = std::move(open_.back().members);
        open_.pop_back();
        return add(std::move(members));
    }
    bool visit_begin_array(Tag /*tag*/, const Context& /*at*/, std::error_code& /*ec*/) override {
        open_.emplace_back();
        return true;
    }
    bool visit_end_array(const Context& /*at*/, std::error_code& /*ec*/) override {
        Value::Array items = std::move(open_.back().items);
        open_.pop_back();
        return add(std::move(items));
    }
    bool visit_key(const string_view_type& name, const Context& /*at*/,
                   std::error_code& /*ec*/) override {
        open_.back().key.assign(name.data(), name.size());
        return true;
    }
    bool visit_null(Tag /*tag*/, const Context& /*at*/, std::error_code& /*ec*/) override {
        return add(nullptr);
    }
    bool visit_bool(bool flag, Tag /*tag*/, const Context& /*at*/,
                    std::error_code& /*ec*/) override {
        return add(flag);
    }
    bool visit_string(const string_view_type& text, Tag tag, const Context& /*at*/,
                      std::error_code& /*ec*/) override {
        std::string value(text.data(), text.size());
        // Numbers that fit no integer type come as text.
        if (tag == Tag::bigint || tag == Tag::bigdec)
            return add(std::strtod(value.c_str(), nullptr));
        return add(std::move(value));
    }
    bool visit_int64(std::int64_t number, Tag /*tag*/, const Context& /*at*/,
                     std::error_code& /*ec*/) override {
        return add(number);
    }
    bool visit_uint64(std::uint64_t number, Tag /*tag*/, const Context& /*at*/,
                      std::error_code& /*ec*/) override {
        if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            return add(static_cast<double>(number));
        return add(static_cast<std::int64_t>(number));
    }
    bool visit_double(double number, Tag /*tag*/, const Context& /*at*/,
                      std::error_code& /*ec*/) override {
        return add(number);
    }
    // JSON text has neither of these.
    bool visit_byte_string(const jsoncons::byte_string_view& /*bytes*/, Tag /*tag*/,
                           const Context& /*at*/, std::error_code& /*ec*/) override {
        return false;
    }

    struct Level {
        bool is_object = false;
        std::string key;  // of the member that comes next
        Value::Object members;
        Value::Array items;
    };
    std::vector<Level> open_;
    Value root_;
};

constexpr std::string_view key_colour = "\x1b[94m";
constexpr std::string_view string_colour = "\x1b[33m";
constexpr std::string_view literal_colour = "\x1b[36m";
constexpr std::string_view plain = "\x1b[0m";

std::string escaped(std::string_view text) {
    std::string out = "\"";
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        const auto byte = static_cast<unsigned char>(c);
        const auto next = static_cast<unsigned char>(at + 1 < text.size() ? text[at + 1] : 0);
        switch (c) {
            case '"':
                out += "\\\"";
                break;
            case '\\':
                out += "\\\\";
                break;
            case '\b':
                out += "\\b";
                break;
            case '\f':
                out += "\\f";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            case '\t':
                out += "\\t";
                break;
            default:
                // A terminal that shows the output would obey DEL and the control characters, of
                // which those from U+0080 to U+009F have two bytes.
                if (byte < 0x20 || byte == 0x7f) {
                    out += fmt::format("\\u{:04x}", byte);
                } else if (byte == 0xc2 && next >= 0x80 && next <= 0x9f) {
                    out += fmt::format("\\u{:04x}", next);
                    ++at;
                } else {
                    out += c;
                }
        }
    }
    return out += '"';
}

class Writer {
  public:
    Writer(KeyOrder order, Colour colour)
        : sorted_(order == KeyOrder::sorted), coloured_(colour == Colour::on) {}

    void write(const Value& value, std::size_t depth) {
        if (const auto* object = value.object()) {
            write_object(*object, depth);
        } else if (const auto* array = value.array()) {
            write_array(*array, depth);
        } else if (const auto* text = value.string()) {
            paint(string_colour, escaped(*text));
        } else if (const auto* integer = value.integer()) {
            paint(literal_colour, std::to_string(*integer));
        } else if (const auto* real = value.real()) {
            paint(literal_colour, number_text(*real));
        } else if (const auto* flag = value.boolean()) {
            paint(literal_colour, *flag ? "true" : "false");
        } else {
            paint(literal_colour, "null");
        }
    }

    [[nodiscard]] std::string take() { return std::move(out_); }

  private:
    void paint(std::string_view colour, std::string_view text) {
        if (coloured_) out_ += colour;
        out_ += text;
        if (coloured_) out_ += plain;
    }

    void new_line(std::size_t depth) {
        out_ += '\n';
        out_.append(2 * depth, ' ');
    }

    void write_object(const Value::Object& object, std::size_t depth) {
        if (object.empty()) {
            out_ += "{}";
            return;
        }
        out_ += '{';
        bool first = true;
        const auto write_member = [&](const Value::Member& member) {
            if (!first) out_ += ',';
            first = false;
            new_line(depth + 1);
            paint(key_colour, escaped(member.first));
            out_ += ": ";
            write(member.second, depth + 1);
        };
        if (sorted_) {
            for (const auto* member : sorted_members(object))
                write_member(*member);
        } else {
            for (const auto& member : object)
                write_member(member);
        }
        new_line(depth);
        out_ += '}';
    }

    void write_array(const Value::Array& array, std::size_t depth) {
        if (array.empty()) {
            out_ += "[]";
            return;
        }
        out_ += '[';
        bool first = true;
        for (const auto& item : array) {
            if (!first) out_ += ',';
            first = false;
            new_line(depth + 1);
            write(item, depth + 1);
        }
        new_line(depth);
        out_ += ']';
    }

    bool sorted_;
    bool coloured_;
    std::string out_;
};

}  // namespace

const Value& Value::operator[](std::string_view key) const {
    static const Value null;
    const auto* members = object();
    if (members == nullptr) return null;
    const auto found = std::find_if(members->begin(), members->end(),
                                    [&](const Member& member) { return member.first == key; });
    return found == members->end() ? null : found->second;
}

void Value::set(std::string_view key, Value value) {
    if (!is_object()) data_ = Object{};
    auto& members = std::get<Object>(data_);
    const auto found = std::find_if(members.begin(), members.end(),
                                    [&](const Member& member) { return member.first == key; });
    if (found == members.end()) {
        members.emplace_back(std::string(key), std::move(value));
    } else {
        found->second = std::move(value);
    }
}

std::vector<const Value::Member*> sorted_members(const Value::Object& object) {
    std::vector<const Value::Member*> members;
    members.reserve(object.size());
    for (const auto& member : object)
        members.push_back(&member);
    std::stable_sort(members.begin(), members.end(),
                     [](const auto* a, const auto* b) { return a->first < b->first; });
    return members;
}

std::string number_text(double number) {
    if (!std::isfinite(number)) return "null";
    auto text = fmt::format("{}", number);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

Result<Value> parse_json(std::string_view text, std::string_view where) {
    try {
        Builder builder;
        jsoncons::json_string_reader reader(
            text, builder, jsoncons::json_options{}.max_nesting_depth(deepest_nesting));
        reader.read();
        return builder.take();
    } catch (const jsoncons::ser_error& error) {
        return fail(error.code().message(),
                    fmt::format("{}:{}:{}", where, error.line(), error.column()));
    } catch (const std::exception& error) {
        return fail(error.what(), std::string(where));
    }
}

std::string format_json(const Value& value, KeyOrder order, Colour colour) {
    Writer writer(order, colour);
    writer.write(value, 0);
    return writer.take() + "\n";
}

}  // namespace batchai::base

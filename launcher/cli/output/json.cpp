// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/json.hpp"

#include <string_view>

#include <fmt/format.h>

namespace batchai::cli {
namespace {

constexpr std::string_view key_colour = "\x1b[94m";
constexpr std::string_view string_colour = "\x1b[33m";
constexpr std::string_view literal_colour = "\x1b[36m";
constexpr std::string_view plain = "\x1b[0m";

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
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
                // DEL and the controls would act on a terminal that shows the output.
                if (byte < 0x20 || byte == 0x7f) {
                    out += fmt::format("\\u{:04x}", byte);
                } else {
                    out += c;
                }
        }
    }
    return out += '"';
}

class Writer {
  public:
    explicit Writer(Colour colour) : coloured_(colour == Colour::on) {}

    void write(const Value& value, std::size_t depth) {
        if (const auto* object = value.object()) {
            write_object(*object, depth);
        } else if (const auto* array = value.array()) {
            write_array(*array, depth);
        } else if (const auto* text = value.string()) {
            paint(string_colour, quoted(*text));
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
        for (const auto* member : sorted_members(object)) {
            if (!first) out_ += ',';
            first = false;
            new_line(depth + 1);
            paint(key_colour, quoted(member->first));
            out_ += ": ";
            write(member->second, depth + 1);
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

    bool coloured_;
    std::string out_;
};

}  // namespace

std::string format_json(const Value& value, Colour colour) {
    Writer writer(colour);
    writer.write(value, 0);
    return writer.take() + "\n";
}

}  // namespace batchai::cli

// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/yaml.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::cli {

namespace {

using base::Value;

// Whether the text has a C1 control, a line separator of Unicode, or a byte order mark, which YAML
// wants escaped.
bool has_unicode_break(std::string_view text) {
    for (const std::string_view mark : {"\xE2\x80\xA8", "\xE2\x80\xA9", "\xEF\xBB\xBF"}) {
        if (text.find(mark) != std::string_view::npos) return true;
    }
    for (std::size_t i = 0; i + 1 < text.size(); ++i) {
        const auto next = static_cast<unsigned char>(text[i + 1]);
        if (text[i] == '\xC2' && next >= 0x80 && next <= 0x9F) return true;
    }
    return false;
}

// YAML 1.1 reads these words, and texts that look like numbers, as something else than strings.
bool is_other_type(std::string_view text) {
    constexpr std::array<std::string_view, 12> words{"~",  "null", "true", "false", "yes", "no",
                                                     "on", "off",  "y",    "n",     "=",   "<<"};
    const auto lower = base::lower(text);
    if (std::find(words.begin(), words.end(), lower) != words.end()) return true;
    const char first = text.front();
    if (std::isdigit(static_cast<unsigned char>(first)) == 0 &&
        std::string_view("+-.").find(first) == std::string_view::npos)
        return false;
    // Numbers of all bases, infinities, and dates and times.
    return text.find_first_not_of("0123456789abcdefABCDEFxXoOinINTZz_:.+- ") ==
           std::string_view::npos;
}

bool is_plain(std::string_view text) {
    if (text.empty() || is_other_type(text)) return false;
    constexpr std::string_view never_first = "-?:,[]{}#&*!|>'\"%@` ";
    if (never_first.find(text.front()) != std::string_view::npos || text.back() == ' ' ||
        text.back() == ':')
        return false;
    if (text == "..." || text.starts_with("... ")) return false;
    return text.find(": ") == std::string_view::npos && text.find(" #") == std::string_view::npos;
}

std::string in_double_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += fmt::format("\\{}", c);
        else if (c == '\n')
            out += "\\n";
        else if (c == '\t')
            out += "\\t";
        else if (base::is_control(c))
            out += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
        else
            out += c;
    }
    return out + "\"";
}

// Escapes what a double-quoted string may hold only as an escape, besides the ASCII controls.
std::string with_unicode_escaped(std::string text) {
    const auto replace = [&](std::string_view from, std::string_view to) {
        for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at))
            text.replace(at, from.size(), to);
    };
    replace("\xE2\x80\xA8", "\\L");
    replace("\xE2\x80\xA9", "\\P");
    replace("\xEF\xBB\xBF", "\\uFEFF");
    for (int code = 0x80; code <= 0x9F; ++code)
        replace(std::string("\xC2") + static_cast<char>(code), fmt::format("\\x{:02X}", code));
    return text;
}

std::string in_single_quotes(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'') out += c;
        out += c;
    }
    return out + "'";
}

std::string string_text(std::string_view text) {
    if (has_unicode_break(text)) return with_unicode_escaped(in_double_quotes(text));
    if (std::any_of(text.begin(), text.end(), base::is_control)) return in_double_quotes(text);
    return is_plain(text) ? std::string(text) : in_single_quotes(text);
}

// YAML 1.1, which PyYAML reads, knows "1.0e-05" as a number, and "1e-05" as a text.
std::string real_text(double real) {
    std::string text = base::number_text(real);
    const std::size_t exponent = text.find('e');
    if (exponent != std::string::npos && text.find('.') == std::string::npos)
        text.insert(exponent, ".0");
    return text;
}

std::string scalar_text(const Value& value) {
    if (const auto* text = value.string()) return string_text(*text);
    if (const auto* flag = value.boolean()) return *flag ? "true" : "false";
    if (const auto* integer = value.integer()) return std::to_string(*integer);
    if (const auto* real = value.real()) return real_text(*real);
    if (value.is_array()) return "[]";
    return value.is_object() ? "{}" : "null";
}

// A list or object with members takes lines of its own; everything else fits after its key.
bool is_block(const Value& value) {
    if (const auto* array = value.array()) return !array->empty();
    const auto* object = value.object();
    return object != nullptr && !object->empty();
}

void write_block(std::string& out, const Value& value, std::size_t indent, bool continues_line);

void write_array(std::string& out, const Value::Array& array, std::size_t indent,
                 bool continues_line) {
    for (const Value& item : array) {
        if (!continues_line) out.append(indent, ' ');
        continues_line = false;
        out += "- ";
        if (is_block(item))
            write_block(out, item, indent + 2, true);
        else
            out += scalar_text(item) + "\n";
    }
}

void write_object(std::string& out, const Value::Object& object, std::size_t indent,
                  bool continues_line) {
    for (const auto* member : base::sorted_members(object)) {
        if (!continues_line) out.append(indent, ' ');
        continues_line = false;
        out += string_text(member->first) + ":";
        if (!is_block(member->second)) {
            out += " " + scalar_text(member->second) + "\n";
            continue;
        }
        out += "\n";
        write_block(out, member->second, indent + (member->second.is_object() ? 2 : 0), false);
    }
}

// With `continues_line` the first line goes on after what is there.
void write_block(std::string& out, const Value& value, std::size_t indent, bool continues_line) {
    if (const auto* array = value.array())
        write_array(out, *array, indent, continues_line);
    else
        write_object(out, *value.object(), indent, continues_line);
}

}  // namespace

std::string format_yaml(const Value& value) {
    std::string out;
    if (is_block(value)) {
        write_block(out, value, 0, false);
        return out;
    }
    out = scalar_text(value);
    const bool quoted = out.front() == '\'' || out.front() == '"';
    const bool empty_block = value.is_array() || value.is_object();
    return out + (quoted || empty_block ? "\n" : "\n...\n");
}

}  // namespace batchai::cli

// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/syntax/reader.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

std::size_t count_digits(std::string_view text) {
    return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), base::is_digit) -
                                    text.begin());
}

// Returns the kind of JSON number that the text is; broken if it is not one.
NodeType number_type(std::string_view text) {
    if (text.starts_with('-')) text.remove_prefix(1);
    const std::size_t whole = count_digits(text);
    if (whole == 0 || (whole > 1 && text.front() == '0')) return NodeType::broken;
    text.remove_prefix(whole);
    if (text.empty()) return NodeType::integer;
    if (text.front() == '.') {
        const std::size_t fraction = count_digits(text.substr(1));
        if (fraction == 0) return NodeType::broken;
        text.remove_prefix(1 + fraction);
    }
    if (text.empty()) return NodeType::real;
    if (text.front() != 'e' && text.front() != 'E') return NodeType::broken;
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    return !text.empty() && count_digits(text) == text.size() ? NodeType::real : NodeType::broken;
}

bool closes(std::string_view character, std::string_view opening) {
    if (opening == "\"" || opening == "'") return character == opening;
    const bool typographic = character == "\u201C" || character == "\u201D" ||
                             character == "\u2018" || character == "\u2019";
    return typographic || character == "\"";
}

std::string word_hint(std::string_view word) {
    struct Foreign {
        std::string_view word;
        std::string_view json;
    };
    constexpr std::array<Foreign, 8> foreign = {{{"True", "true"},
                                                 {"TRUE", "true"},
                                                 {"False", "false"},
                                                 {"FALSE", "false"},
                                                 {"None", "null"},
                                                 {"NULL", "null"},
                                                 {"nil", "null"},
                                                 {"undefined", "null"}}};
    for (const Foreign& entry : foreign) {
        if (entry.word == word) return fmt::format("write {}", entry.json);
    }
    return "write text in double quotes";
}

}  // namespace

void Reader::skip_blanks() {
    while (!stopped_ && !cursor_.at_end()) {
        const char c = cursor_.peek();
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            cursor_.advance();
        } else if (cursor_.starts_with("//")) {
            line_comment(2);
        } else if (c == '#') {
            line_comment(1);
        } else if (cursor_.starts_with("/*")) {
            block_comment();
        } else if (cursor_.offset() == 0 && cursor_.starts_with(byte_order_mark)) {
            faults_.add(Fault::byte_order_mark, cursor_.here(),
                        "the file starts with a byte order mark (BOM)",
                        "save it as UTF-8 without BOM");
            cursor_.advance();
        } else {
            return;
        }
    }
}

void Reader::line_comment(std::size_t marker_length) {
    const Position start = cursor_.here(marker_length);
    while (!cursor_.at_end() && cursor_.peek() != '\n' && cursor_.peek() != '\r')
        cursor_.advance();
    faults_.add(Fault::comment, cursor_.span_from(start), "JSON has no comments",
                R"(remove it, or keep the text as the value of a key such as "$comment")");
}

void Reader::block_comment() {
    const Position start = cursor_.here(2);
    cursor_.advance(2);
    while (!cursor_.at_end() && !cursor_.starts_with("*/"))
        cursor_.advance();
    if (cursor_.at_end()) {
        stop(Fault::comment, start, "this comment is never closed, and JSON has no comments",
             "remove it");
        return;
    }
    cursor_.advance(2);
    faults_.add(Fault::comment, start, "JSON has no comments",
                R"(remove it, or keep the text as the value of a key such as "$comment")");
}

Node Reader::string() {
    Node node;
    node.type = NodeType::string;
    const Position start = cursor_.here();
    const std::string opening(cursor_.character());
    cursor_.advance();
    string_unclosed_ = false;
    string_body(node.text, opening);
    const bool closed = !string_unclosed_;
    if (closed) cursor_.advance();
    node.position = cursor_.span_from(start);
    if (!closed) {
        faults_.add(Fault::syntax, {start.line, start.column, 1},
                    "this string is not closed before the end of the line",
                    "add the closing double quote; write a line break as \\n");
    } else if (opening != "\"") {
        faults_.add(
            Fault::syntax, node.position,
            fmt::format("a string is in {} quotes", opening == "'" ? "single" : "typographic"),
            "write it in plain double quotes (\")");
    }
    return node;
}

// Reads up to the closing quote. If the line ends first, sets string_unclosed_.
void Reader::string_body(std::string& out, std::string_view opening) {
    bool reported = false;
    while (true) {
        const char c = cursor_.peek();
        if (cursor_.at_end() || c == '\n' || cursor_.starts_with("\r\n")) {
            string_unclosed_ = true;
            return;
        }
        if (closes(cursor_.character(), opening)) return;
        if (c == '\\') {
            escape(out);
        } else if (static_cast<unsigned char>(c) < 0x20 || !cursor_.valid_utf8()) {
            broken_character(out, reported);
        } else {
            out += cursor_.character();
            cursor_.advance();
        }
    }
}

// Replaces a raw control character or a byte that is not UTF-8. Only the first one of a string is
// reported.
void Reader::broken_character(std::string& out, bool& reported) {
    const auto byte = static_cast<unsigned char>(cursor_.peek());
    if (!reported && byte < 0x20) {
        faults_.add(Fault::control_character, cursor_.here(),
                    fmt::format("control character U+{:04X} in a string", byte),
                    byte == '\t' ? std::string("write \\t") : fmt::format("write \\u{:04x}", byte));
    } else if (!reported) {
        faults_.add(Fault::not_utf8, cursor_.here(),
                    fmt::format("the byte 0x{:02X} is not valid UTF-8 here", byte),
                    "save the file as UTF-8");
    }
    reported = true;
    utf8_append(out, 0xFFFD);
    cursor_.advance();
}

void Reader::escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    const Position start = cursor_.here();
    cursor_.advance();
    const char c = cursor_.peek();
    if (c == 'u') {
        unicode_escape(out, start);
        return;
    }
    const std::size_t letter = cursor_.at_end() ? std::string_view::npos : letters.find(c);
    if (letter != std::string_view::npos) {
        out += meanings[letter];
        cursor_.advance();
        return;
    }
    // The character after the backslash is left to the caller, because it may end the line.
    const std::size_t length = c == '\n' || c == '\r' || cursor_.at_end() ? 1 : 2;
    faults_.add(
        Fault::syntax, {start.line, start.column, length},
        fmt::format("\"\\{}\" is not a JSON escape sequence", printable(cursor_.character())),
        "write \\\\ for a backslash");
    out += '\\';
}

char32_t Reader::hexadecimal(bool& valid) {
    char32_t code_unit = 0;
    for (int i = 0; i < 4; ++i) {
        const auto c = static_cast<unsigned char>(cursor_.peek());
        if (std::isxdigit(c) == 0) {
            valid = false;
            return 0xFFFD;
        }
        const auto digit =
            static_cast<char32_t>(std::isdigit(c) != 0 ? c - '0' : std::tolower(c) - 'a' + 10);
        code_unit = code_unit * 16 + digit;
        cursor_.advance();
    }
    return code_unit;
}

// The cursor is at the "u" of an escape that began at `start`.
void Reader::unicode_escape(std::string& out, Position start) {
    bool valid = true;
    cursor_.advance();
    char32_t code_point = hexadecimal(valid);
    const bool high = code_point >= 0xD800 && code_point < 0xDC00;
    if (valid && high && cursor_.starts_with("\\u")) {
        cursor_.advance(2);
        const char32_t low = hexadecimal(valid);
        valid = valid && low >= 0xDC00 && low < 0xE000;
        if (valid) code_point = 0x10000 + ((code_point - 0xD800) << 10U) + (low - 0xDC00);
    } else if (code_point >= 0xD800 && code_point < 0xE000) {
        valid = false;
    }
    if (!valid) {
        code_point = 0xFFFD;
        faults_.add(Fault::syntax, cursor_.span_from(start),
                    "this \\u escape is not a valid character",
                    "give four hexadecimal digits, and surrogates as a pair");
    }
    utf8_append(out, code_point);
}

std::string_view Reader::lexeme() {
    const auto continues = [this] {
        const auto c = static_cast<unsigned char>(cursor_.peek());
        return std::isalnum(c) != 0 || c == '_' || c == '$' || c == '+' || c == '-' || c == '.';
    };
    const std::size_t begin = cursor_.offset();
    while (!cursor_.at_end() && continues())
        cursor_.advance();
    return cursor_.since(begin);
}

// Reads a number, true, false or null, or an unquoted word in place of one. No message quotes the
// word, because it may be a secret that lacks its quotes.
Node Reader::word() {
    Node node;
    const Position start = cursor_.here();
    node.text = std::string(lexeme());
    node.position = cursor_.span_from(start);
    const char first = node.text.front();
    if (base::is_digit(first) || first == '-' || first == '+' || first == '.') {
        node.type = number_type(node.text);
        if (node.type == NodeType::broken) {
            faults_.add(Fault::syntax, node.position, "this is not a valid JSON number",
                        "write digits only, without leading zeros, or put text in double quotes");
        }
    } else if (node.text == "true" || node.text == "false") {
        node.type = NodeType::boolean;
        node.boolean = node.text == "true";
    } else if (node.text == "null") {
        node.type = NodeType::null;
    } else {
        faults_.add(Fault::syntax, node.position,
                    "this is neither a string, a number, true, false nor null",
                    word_hint(node.text));
    }
    return node;
}

}  // namespace batchai::job

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "job/schema/faults.hpp"
#include "job/syntax/diagnostic.hpp"
#include "job/syntax/tree.hpp"
#include "job/syntax/utf8.hpp"

// The reader of JSON, which goes on after a fault. The other parts of this folder are:
//
//   tokens.cpp      the part of the reader for blanks, comments, strings, numbers and words
//   tree.hpp        what it makes: values with their positions
//   diagnostic.hpp  a fault with its place, how it is shown, and how secrets are masked
//   utf8.hpp        texts of job files in messages
namespace batchai::job {

// A cursor over a text that keeps track of line and column.
class Cursor {
  public:
    explicit Cursor(std::string_view text) : text_(text) {}

    [[nodiscard]] bool at_end() const { return offset_ >= text_.size(); }
    // Returns the byte that is `ahead` bytes after the cursor; NUL past the end.
    [[nodiscard]] char peek(std::size_t ahead = 0) const {
        return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0';
    }
    [[nodiscard]] bool starts_with(std::string_view word) const {
        return text_.substr(offset_).starts_with(word);
    }
    // Returns the bytes of the character at the cursor: one byte if it is not valid UTF-8, none at
    // the end.
    [[nodiscard]] std::string_view character() const {
        if (at_end()) return {};
        const std::size_t length = utf8_sequence(text_, offset_);
        return text_.substr(offset_, length == 0 ? 1 : length);
    }
    [[nodiscard]] bool valid_utf8() const { return utf8_sequence(text_, offset_) != 0; }

    // Moves past the character at the cursor. A line feed ends a line.
    void advance() {
        const std::size_t length = character().size();
        if (peek() == '\n') {
            ++line_;
            column_ = 1;
        } else if (length > 0) {
            ++column_;
        }
        offset_ += length;
    }
    void advance(std::size_t characters) {
        for (; characters > 0; --characters)
            advance();
    }

    [[nodiscard]] std::size_t offset() const { return offset_; }
    [[nodiscard]] std::string_view since(std::size_t offset) const {
        return text_.substr(offset, offset_ - offset);
    }
    [[nodiscard]] Position here(std::size_t length = 1) const { return {line_, column_, length}; }
    // Returns the span from `start`, which must be on this line, to the cursor.
    [[nodiscard]] Position span_from(Position start) const {
        return {start.line, start.column, column_ - start.column};
    }

  private:
    std::string_view text_;
    std::size_t offset_ = 0;
    std::size_t line_ = 1;
    std::size_t column_ = 1;
};

// The recursive-descent parser behind read_tree(). reader.cpp parses the structure (objects and
// arrays), and tokens.cpp the tokens (blanks, comments, strings, numbers, words).
class Reader {
  public:
    Reader(std::string_view text, Faults& faults) : cursor_(text), faults_(faults) {}
    Tree read();

  private:
    // An object or array that is being read.
    struct Frame {
        Position open;
        char closing = '}';
        bool wants_comma = false;  // an entry has been read, and no comma since
        bool comma_seen = false;
        Position comma;
    };
    enum class Next : std::uint8_t { entry, end, stop };

    Node value(int depth);
    Node container(int depth);
    Next next_entry(Frame& frame);
    Next close(Frame& frame);
    void member(Node& object, int depth);
    bool colon(const Member& member);
    bool string_ahead() const;
    void unexpected(std::string_view wanted);

    void skip_blanks();
    void line_comment(std::size_t marker_length);
    void block_comment();
    Node string();
    void string_body(std::string& out, std::string_view opening);
    void broken_character(std::string& out, bool& reported);
    void escape(std::string& out);
    char32_t hexadecimal(bool& valid);
    void unicode_escape(std::string& out, Position start);
    Node word();
    std::string_view lexeme();

    // Reports the fault and ends reading, because nothing that follows can be read reliably.
    void stop(Fault fault, Position position, std::string message, std::string hint = {});

    Cursor cursor_;
    Faults& faults_;
    Position last_end_;  // just after the last value
    bool stopped_ = false;
    bool string_unclosed_ = false;  // the last string may include the comma after it
};

}  // namespace batchai::job

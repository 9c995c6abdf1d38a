// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string_view>

#include "job/syntax/diagnostic.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

// Walks over a text character by character and knows the line and column where it stands.
class Cursor {
  public:
    explicit Cursor(std::string_view text) : text_(text) {}

    [[nodiscard]] bool at_end() const { return offset_ >= text_.size(); }
    // The byte `ahead` of the cursor; NUL past the end.
    [[nodiscard]] char peek(std::size_t ahead = 0) const {
        return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0';
    }
    [[nodiscard]] bool starts_with(std::string_view word) const {
        return text_.substr(offset_).starts_with(word);
    }
    // The character at the cursor as bytes; one byte if it is no valid UTF-8; empty at the end.
    [[nodiscard]] std::string_view character() const {
        if (at_end()) return {};
        const std::size_t length = utf8_sequence(text_, offset_);
        return text_.substr(offset_, length == 0 ? 1 : length);
    }
    [[nodiscard]] bool valid_utf8() const { return utf8_sequence(text_, offset_) != 0; }

    // Past the character at the cursor. A line feed ends a line.
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
    // From `start`, which must be on this line, to the cursor.
    [[nodiscard]] Position span_from(Position start) const {
        return {start.line, start.column, column_ - start.column};
    }

  private:
    std::string_view text_;
    std::size_t offset_ = 0;
    std::size_t line_ = 1;
    std::size_t column_ = 1;
};

}  // namespace batchai::job

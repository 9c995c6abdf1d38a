// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "job/schema/faults.hpp"
#include "job/syntax/cursor.hpp"
#include "job/syntax/tree.hpp"

namespace batchai::job {

// The recursive-descent reader behind read_tree(). reader.cpp holds the structure (objects and
// arrays), tokens.cpp what stands in it (blanks, comments, strings, numbers, words).
class Reader {
  public:
    Reader(std::string_view text, Faults& faults) : cursor_(text), faults_(faults) {}
    Tree read();

  private:
    // An object or array that is being read.
    struct Frame {
        Position open;
        char closing = '}';
        bool wants_comma = false;  // an entry was read and no comma since
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

    // Nothing that follows can be read reliably.
    void stop(Fault fault, Position position, std::string message, std::string hint = {});

    Cursor cursor_;
    Faults& faults_;
    Position last_end_;  // just behind the last value
    bool stopped_ = false;
    bool string_unclosed_ = false;  // the last string may have swallowed its comma
};

}  // namespace batchai::job

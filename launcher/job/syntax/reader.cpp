// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/syntax/reader.hpp"

#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/parse.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

std::string_view container_name(char closing) {
    return closing == '}' ? "object" : "array";
}

bool is_word_start(char c) {
    return base::is_letter(c) || c == '_' || c == '$';
}

bool is_number_start(char c) {
    return base::is_digit(c) || c == '-' || c == '+' || c == '.';
}

// Marks and reports every key that the object already has.
void mark_repeated(Node& object, Faults& faults) {
    std::unordered_map<std::string_view, std::size_t> first_line;
    for (Member& member : object.members) {
        const auto [entry, is_new] = first_line.emplace(member.key, member.position.line);
        if (is_new) continue;
        member.repeated = true;
        faults.add(Fault::duplicate_key, member.position,
                   fmt::format("duplicate key {}; it was given first on line {}", quote(member.key),
                               entry->second),
                   "remove one of the two");
    }
}

}  // namespace

Tree read_tree(std::string_view text, Faults& faults) {
    return Reader(text, faults).read();
}

Tree Reader::read() {
    Tree tree;
    skip_blanks();
    if (!stopped_ && cursor_.at_end()) {
        stop(Fault::empty_file, {1, 1, 1}, "the file is empty",
             R"(a job file is an object: { "properties": { ... } })");
    }
    if (!stopped_) tree.root = value(1);
    if (!stopped_) skip_blanks();
    if (!stopped_ && !cursor_.at_end()) {
        const std::string found = quote(cursor_.character());
        stop(Fault::syntax, cursor_.here(),
             fmt::format("unexpected {} after the end of the job description", found),
             "a job file holds one object; remove what follows it");
    }
    tree.complete = !stopped_;
    return tree;
}

void Reader::stop(Fault fault, Position position, std::string message, std::string hint) {
    faults_.add(fault, position, std::move(message), std::move(hint));
    stopped_ = true;
}

void Reader::unexpected(std::string_view wanted) {
    stop(Fault::syntax, cursor_.here(),
         fmt::format("expected {}, found {}", wanted, quote(cursor_.character())));
}

bool Reader::string_ahead() const {
    const std::string_view character = cursor_.character();
    return character == "\"" || character == "'" || character == "\u201C" ||
           character == "\u201D" || character == "\u2018" || character == "\u2019";
}

// Reads the value at the cursor, which must not be at the end.
Node Reader::value(int depth) {
    const char c = cursor_.peek();
    Node node;
    if (c == '{' || c == '[') {
        node = container(depth);
    } else if (string_ahead()) {
        node = string();
    } else if (is_word_start(c) || is_number_start(c)) {
        node = word();
    } else {
        node.position = cursor_.here();
        unexpected("a value");
    }
    last_end_ = cursor_.here();
    return node;
}

Node Reader::container(int depth) {
    Node node;
    node.type = cursor_.peek() == '{' ? NodeType::object : NodeType::array;
    node.position = cursor_.here();
    if (depth > maximum_nesting) {
        stop(Fault::nested_too_deep, node.position,
             fmt::format("objects and arrays are nested deeper than {}", maximum_nesting),
             "a job file needs no more than 6 levels");
        return node;
    }
    Frame frame;
    frame.open = node.position;
    frame.closing = node.type == NodeType::object ? '}' : ']';
    cursor_.advance();
    while (next_entry(frame) == Next::entry) {
        if (node.type == NodeType::object) {
            member(node, depth);
        } else {
            node.items.push_back(value(depth + 1));
        }
        if (stopped_) break;
        frame.wants_comma = true;
        frame.comma_seen = false;
    }
    mark_repeated(node, faults_);
    return node;
}

// Moves past blanks and the comma to the next entry, or past the closing bracket.
Reader::Next Reader::next_entry(Frame& frame) {
    while (true) {
        skip_blanks();
        if (stopped_) return Next::stop;
        const char c = cursor_.peek();
        if (cursor_.at_end()) {
            stop(Fault::syntax, cursor_.here(),
                 fmt::format("the file ends inside the {} that opens on line {}, column {}",
                             container_name(frame.closing), frame.open.line, frame.open.column),
                 fmt::format("a \"{}\" is missing", frame.closing));
            return Next::stop;
        }
        if (c == '}' || c == ']') return close(frame);
        if (c != ',') break;
        if (!frame.wants_comma) {
            faults_.add(Fault::syntax, cursor_.here(), "there is nothing before this comma",
                        "remove it");
        }
        frame.wants_comma = false;
        frame.comma_seen = true;
        frame.comma = cursor_.here();
        cursor_.advance();
    }
    if (!frame.wants_comma || string_unclosed_) {
        string_unclosed_ = false;
        return Next::entry;
    }
    const bool entry_ahead = string_ahead() || is_word_start(cursor_.peek()) ||
                             is_number_start(cursor_.peek()) || cursor_.peek() == '{' ||
                             cursor_.peek() == '[';
    if (!entry_ahead) {
        unexpected(fmt::format("\",\" or \"{}\"", frame.closing));
        return Next::stop;
    }
    faults_.add(Fault::syntax, last_end_, "a comma is missing here", "add \",\" after the value");
    return Next::entry;
}

Reader::Next Reader::close(Frame& frame) {
    if (cursor_.peek() != frame.closing) {
        stop(Fault::syntax, cursor_.here(),
             fmt::format("\"{}\" closes the {} that opens on line {}, column {}", cursor_.peek(),
                         container_name(frame.closing), frame.open.line, frame.open.column),
             fmt::format("a \"{}\" is missing", frame.closing));
        return Next::stop;
    }
    if (frame.comma_seen) {
        faults_.add(Fault::trailing_comma, frame.comma,
                    fmt::format("trailing comma before \"{}\"", frame.closing), "remove the comma");
    }
    string_unclosed_ = false;
    cursor_.advance();
    return Next::end;
}

void Reader::member(Node& object, int depth) {
    Member member;
    member.position = cursor_.here();
    if (string_ahead()) {
        Node key = string();
        member.position = key.position;
        member.key = std::move(key.text);
    } else if (is_word_start(cursor_.peek())) {
        member.key = std::string(lexeme());
        member.position = cursor_.span_from(member.position);
        faults_.add(Fault::syntax, member.position,
                    fmt::format("the key {} is not in quotes", quote(member.key)),
                    "write it in double quotes");
    } else {
        unexpected("a key in double quotes");
        return;
    }
    string_unclosed_ = false;
    if (!colon(member)) return;
    const char c = cursor_.peek();
    if (cursor_.at_end() || c == ',' || c == '}' || c == ']') {
        member.value.position = member.position;
        faults_.add(Fault::syntax, member.position,
                    fmt::format("the key {} has no value", quote(member.key)));
    } else {
        member.value = value(depth + 1);
    }
    object.members.push_back(std::move(member));
}

// Moves past the colon after a key and the blanks around it.
bool Reader::colon(const Member& member) {
    const Position key_end = cursor_.here();
    skip_blanks();
    if (stopped_) return false;
    if (cursor_.peek() == ':' || cursor_.peek() == '=') {
        if (cursor_.peek() == '=') {
            faults_.add(Fault::syntax, cursor_.here(), "found \"=\" instead of a colon",
                        "write \":\"");
        }
        cursor_.advance();
        skip_blanks();
        return !stopped_;
    }
    const std::string hint = fmt::format("write {}: value", quote(member.key));
    if (cursor_.at_end() || cursor_.peek() == ',' || cursor_.peek() == '}') return true;
    if (cursor_.peek() == '{' || cursor_.peek() == '[' || string_ahead() ||
        is_number_start(cursor_.peek())) {
        faults_.add(Fault::syntax, key_end,
                    fmt::format("a colon is missing after the key {}", quote(member.key)), hint);
        return true;
    }
    unexpected("\":\"");
    return false;
}

}  // namespace batchai::job

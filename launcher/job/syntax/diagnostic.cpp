// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/syntax/diagnostic.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.hpp"
#include "job/schema/field_table.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

// What the field table says about all fields of one name.
struct Uses {
    bool secret = false;
    bool names_variable = false;
    std::set<std::string_view> open_in;  // keys of the objects or lists in which it is not secret
};

using UsesByName = std::map<std::string_view, Uses>;

void collect(const Object& object, std::string_view holder, UsesByName& uses) {
    for (const Field& field : object.fields) {
        if (field.kind == Kind::text && field.secret) uses[field.name].secret = true;
        if (field.kind == Kind::text && !field.secret) uses[field.name].open_in.insert(holder);
        if (field.check == Check::secret_variable || field.check == Check::variable_name)
            uses[field.name].names_variable = true;
        if (field.object != nullptr) collect(*field.object, field.name, uses);
    }
}

// Returns whether the value of the key is a secret, or may be one that was written in the place of
// a variable's name.
bool is_secret(std::string_view name, std::string_view holder, std::string_view value) {
    static const UsesByName uses = [] {
        UsesByName all;
        collect(job_file_object, {}, all);
        return all;
    }();
    const auto found = uses.find(name);
    if (found == uses.end()) return false;
    const Uses& known = found->second;
    return (known.secret && !known.open_in.contains(holder)) ||
           (known.names_variable && looks_like_secret(value));
}

bool is_quote(char c) {
    return c == '"' || c == '\'';
}

// Returns the end of the token that begins at `begin`. A string ends before its closing quote, or
// at the end of the line if it is not closed. A bare word ends before a blank or punctuation.
std::size_t token_end(std::string_view source, std::size_t begin, char opening) {
    std::size_t at = begin;
    while (at < source.size() && source[at] != '\n') {
        const char c = source[at];
        if (opening != '\0' && c == opening) break;
        if (opening == '\0' && std::string_view(" \t\r,:{}[]").find(c) != std::string_view::npos) {
            break;
        }
        const bool escaped =
            opening != '\0' && c == '\\' && at + 1 < source.size() && source[at + 1] != '\n';
        at += escaped ? 2U : 1U;
    }
    return at;
}

// Returns one "*" per character, not per byte, so that the caret below the line stays in place.
std::string stars(std::string_view text) {
    std::string out;
    for (std::size_t offset = 0; offset < text.size();) {
        out += '*';
        offset += std::max<std::size_t>(utf8_sequence(text, offset), 1);
    }
    return out;
}

// Masks the secrets in a text. It reads tokens and keeps only as much context as is needed to know
// the key of each value.
class Masker {
  public:
    explicit Masker(std::string_view source) : source_(source) {}

    std::string run() {
        while (at_ < source_.size()) {
            const char c = source_[at_];
            if (is_one_of(c, " \t\r\n")) {
                copy();
            } else if (is_one_of(c, ",:={}[]")) {
                punctuation(c);
                copy();
            } else {
                token(is_quote(c) ? c : '\0');
            }
        }
        return std::move(out_);
    }

  private:
    static bool is_one_of(char c, std::string_view set) {
        return set.find(c) != std::string_view::npos;
    }

    void copy() { out_ += source_[at_++]; }

    void punctuation(char c) {
        if (c == '{' || c == '[') holders_.push_back(key_.empty() ? holder() : key_);
        if ((c == '}' || c == ']') && !holders_.empty()) holders_.pop_back();
        behind_colon_ = c == ':' || c == '=';
        if (!behind_colon_) key_ = {};
    }

    void token(char opening) {
        if (opening != '\0') copy();
        const std::size_t end = token_end(source_, at_, opening);
        const std::string_view token = source_.substr(at_, end - at_);
        const bool placeholder = token.starts_with('<') && token.ends_with('>');
        const bool secret = behind_colon_ && is_secret(key_, holder(), token) && !placeholder;
        out_ += secret ? stars(token) : std::string(token);
        at_ = end;
        if (at_ < source_.size() && opening != '\0' && source_[at_] == opening) copy();
        key_ = behind_colon_ ? std::string_view() : token;
        behind_colon_ = false;
    }

    // Returns the key of the innermost enclosing object or list that has one.
    std::string_view holder() const {
        return holders_.empty() ? std::string_view() : holders_.back();
    }

    std::string_view source_;
    std::size_t at_ = 0;
    std::string out_;
    std::string_view key_;  // the last key, until its value ends
    bool behind_colon_ = false;
    std::vector<std::string_view> holders_;
};

}  // namespace

std::string mask_secrets(std::string_view source) {
    return Masker(source).run();
}

namespace {

constexpr std::size_t widest_line = 110;  // characters of source that are shown
constexpr std::string_view ellipsis = "...";

std::string_view severity_name(Severity severity) {
    return severity == Severity::error ? "error" : "warning";
}

// Returns the line without its line end; empty if the source has fewer lines.
std::string_view line_of(std::string_view source, std::size_t number) {
    std::size_t begin = 0;
    for (std::size_t line = 1; line < number; ++line) {
        const std::size_t end = source.find('\n', begin);
        if (end == std::string_view::npos) return {};
        begin = end + 1;
    }
    std::string_view line = source.substr(begin, source.find('\n', begin) - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

// Splits a line into one printable string per character. Tabs are kept.
std::vector<std::string> cells_of(std::string_view line) {
    std::vector<std::string> cells;
    for (std::size_t offset = 0; offset < line.size();) {
        const std::size_t length = std::max<std::size_t>(utf8_sequence(line, offset), 1);
        const std::string_view character = line.substr(offset, length);
        cells.push_back(character == "\t" ? "\t" : printable(character));
        offset += length;
    }
    return cells;
}

// Returns the source line and the caret line. Long lines are cut around the caret.
std::string excerpt(std::string_view line, Position position) {
    const std::vector<std::string> cells = cells_of(line);
    const std::size_t caret = std::min(position.column - 1, cells.size());
    std::size_t begin = 0;
    std::size_t end = cells.size();
    if (cells.size() > widest_line) {
        begin = caret > widest_line / 2 ? caret - widest_line / 2 : 0;
        begin = std::min(begin, cells.size() - widest_line);
        end = begin + widest_line;
    }
    std::string shown(begin > 0 ? ellipsis : "");
    std::string marks(shown.size(), ' ');
    for (std::size_t i = begin; i < end; ++i) {
        shown += cells[i];
        if (i < caret) marks += cells[i] == "\t" ? '\t' : ' ';
    }
    if (end < cells.size()) shown += ellipsis;
    const std::size_t room = std::max<std::size_t>(end - std::min(caret, end), 1);
    const std::size_t length = std::clamp<std::size_t>(position.length, 1, room);
    return fmt::format("{}\n{}^{}\n", shown, marks, std::string(length - 1, '~'));
}

// The secrets in `source` must be masked already.
std::string render_masked(const Diagnostic& diagnostic, std::string_view file_name,
                          std::string_view source) {
    const Position& at = diagnostic.position;
    std::string out = printable(file_name);
    if (at.line > 0) out += fmt::format(":{}:{}", at.line, at.column);
    out +=
        fmt::format(": {}: {}", severity_name(diagnostic.severity), printable(diagnostic.message));
    if (!diagnostic.hint.empty()) out += "; " + printable(diagnostic.hint);
    out += fmt::format(" [{}]\n", diagnostic.code);
    if (at.line == 0 || at.column == 0) return out;
    const std::string_view line = line_of(source, at.line);
    if (!line.empty()) out += excerpt(line, at);
    return out;
}

std::string plural(std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string render(const Diagnostic& diagnostic, std::string_view file_name,
                   std::string_view source) {
    return render_masked(diagnostic, file_name, mask_secrets(source));
}

std::string render_all(const std::vector<Diagnostic>& diagnostics, std::string_view file_name,
                       std::string_view source) {
    if (diagnostics.empty()) return {};
    const std::string masked = mask_secrets(source);
    std::string out;
    std::size_t errors = 0;
    for (const Diagnostic& diagnostic : diagnostics) {
        out += render_masked(diagnostic, file_name, masked);
        if (diagnostic.severity == Severity::error) ++errors;
    }
    const std::size_t warnings = diagnostics.size() - errors;
    if (errors > 0) out += plural(errors, "error") + (warnings > 0 ? ", " : "");
    if (warnings > 0) out += plural(warnings, "warning");
    return out + "\n";
}

std::string diagnostics_json(const std::vector<Diagnostic>& diagnostics,
                             std::string_view file_name) {
    const auto number = [](std::size_t value) { return static_cast<std::int64_t>(value); };
    base::Value::Array array;
    for (const Diagnostic& diagnostic : diagnostics)
        array.emplace_back(base::Value::Object{{"file", printable(file_name)},
                                               {"line", number(diagnostic.position.line)},
                                               {"column", number(diagnostic.position.column)},
                                               {"length", number(diagnostic.position.length)},
                                               {"severity", severity_name(diagnostic.severity)},
                                               {"code", diagnostic.code},
                                               {"message", printable(diagnostic.message)},
                                               {"hint", printable(diagnostic.hint)}});
    return base::format_json(array);
}

bool has_error(const std::vector<Diagnostic>& diagnostics) {
    return std::any_of(diagnostics.begin(), diagnostics.end(),
                       [](const Diagnostic& d) { return d.severity == Severity::error; });
}

}  // namespace batchai::job

// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/syntax/secret_mask.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "job/schema/field_table.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

// What the table says about the fields of one name, wherever they stand.
struct Uses {
    bool secret = false;
    std::set<std::string_view> open_in;  // keys of the objects or lists in which it is no secret
};

using UsesByName = std::map<std::string_view, Uses>;

void collect(const Object& object, std::string_view holder, UsesByName& uses) {
    for (const Field& field : object.fields) {
        if (field.kind == Kind::text && field.secret) uses[field.name].secret = true;
        if (field.kind == Kind::text && !field.secret) uses[field.name].open_in.insert(holder);
        if (field.object != nullptr) collect(*field.object, field.name, uses);
    }
}

bool is_secret(std::string_view name, std::string_view holder) {
    static const UsesByName uses = [] {
        UsesByName all;
        collect(job_file_object, {}, all);
        return all;
    }();
    const auto found = uses.find(name);
    return found != uses.end() && found->second.secret && !found->second.open_in.contains(holder);
}

bool is_quote(char c) {
    return c == '"' || c == '\'';
}

// The end of the token that begins at `begin`: behind a string's last character (not its closing
// quote), at the end of its line when it is not closed; or behind a bare word.
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

// Characters, not bytes, so that the caret below the line stays right.
std::string stars(std::string_view text) {
    std::string out;
    for (std::size_t offset = 0; offset < text.size();) {
        out += '*';
        offset += std::max<std::size_t>(utf8_sequence(text, offset), 1);
    }
    return out;
}

// Reads tokens and remembers just enough to know which key a value has.
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
        const bool secret = behind_colon_ && is_secret(key_, holder()) && !placeholder;
        out_ += secret ? stars(token) : std::string(token);
        at_ = end;
        if (at_ < source_.size() && opening != '\0' && source_[at_] == opening) copy();
        key_ = behind_colon_ ? std::string_view() : token;
        behind_colon_ = false;
    }

    // The key of the object or list around, or the next one outward that has one.
    std::string_view holder() const {
        return holders_.empty() ? std::string_view() : holders_.back();
    }

    std::string_view source_;
    std::size_t at_ = 0;
    std::string out_;
    std::string_view key_;  // the last key, until its value is over
    bool behind_colon_ = false;
    std::vector<std::string_view> holders_;
};

}  // namespace

std::string mask_secrets(std::string_view source) {
    return Masker(source).run();
}

}  // namespace batchai::job

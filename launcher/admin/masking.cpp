// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/masking.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

#include "base/text.hpp"

namespace batchai::admin {

namespace {

// The ends of names whose values are secrets, in lower case.
constexpr std::array<std::string_view, 13> names{
    "sig",  "accountkey", "password",   "passwd",    "passphrase", "secret",       "token",
    "_key", "-key",       "privatekey", "accesskey", "apikey",     "authorization"};
constexpr std::size_t longest_name = 13;

std::string replaced(std::string text, std::string_view secret) {
    if (secret.empty()) return text;
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + mask.size()))
        text.replace(at, secret.size(), mask);
    return text;
}

// The characters of a JSON string, without its quotes.
std::string as_json(const std::string& secret) {
    const std::string quoted = base::format_json(base::Value(secret));
    const std::string_view trimmed = base::trim(quoted);
    return std::string(trimmed.substr(1, trimmed.size() - 2));
}

bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

bool ends_value(char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0 || c == '&' || c == '"' || c == '\'' ||
           c == ',' || c == ';';
}

bool names_a_secret(std::string_view before) {
    while (!before.empty() &&
           (is_blank(before.back()) || before.back() == '"' || before.back() == '\''))
        before.remove_suffix(1);
    // A character more shows where the word begins.
    const std::string tail = base::lower(
        before.substr(before.size() - std::min<std::size_t>(before.size(), longest_name + 1)));
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
        if (!std::string_view(tail).ends_with(name)) return false;
        // "sig" is also the end of other words.
        const std::size_t rest = tail.size() - name.size();
        return name != "sig" || rest == 0 ||
               std::isalnum(static_cast<unsigned char>(tail[rest - 1])) == 0;
    });
}

struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
};

// Returns the value if a name ends before `at`, which is a "=" or ":". One in quotes may have
// blanks in it.
Span value_after(std::string_view text, std::size_t at) {
    std::size_t begin = at + 1;
    while (begin < text.size() && is_blank(text[begin]))
        ++begin;
    const bool quoted = begin < text.size() && (text[begin] == '"' || text[begin] == '\'');
    const char quote = quoted ? text[begin++] : '\0';
    // What comes before the secret in an HTTP header.
    for (const std::string_view scheme : {"bearer ", "basic "})
        if (base::lower(text.substr(begin, scheme.size())) == scheme) begin += scheme.size();
    std::size_t end = begin;
    while (end < text.size() && text[end] != '\n' &&
           (quoted ? text[end] != quote : !ends_value(text[end])))
        end += quoted && text[end] == '\\' ? 2U : 1U;
    return {begin, std::min(end, text.size())};
}

// Removes a token of JSON, and the blanks around it, from an end of the text. Returns false if
// something else is there.
bool takes_end(std::string_view& text, std::string_view token) {
    text = base::trim(text);
    if (!text.ends_with(token)) return false;
    text = base::trim(text.substr(0, text.size() - token.size()));
    return true;
}
bool takes_begin(std::string_view& text, std::string_view token) {
    text = base::trim(text);
    if (!text.starts_with(token)) return false;
    text = base::trim(text.substr(token.size()));
    return true;
}

// Returns whether what is between these texts is the value of a variable that is named as a secret,
// in the form of the job file and the plan: {"name": "NAME", "value": "VALUE"}, in either order.
bool is_value_of_named_secret(std::string_view before, std::string_view after) {
    if (!takes_end(before, "\"value\"")) return false;
    if (takes_end(before, ",")) return before.ends_with('"') && names_a_secret(before);
    if (!takes_begin(after, "\"") || !takes_begin(after, ",") || !takes_begin(after, "\"name\"") ||
        !takes_begin(after, ":") || !takes_begin(after, "\""))
        return false;
    return names_a_secret(after.substr(0, after.find('"')));
}

std::string without_named_values(std::string_view text) {
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = text.find_first_of("=:"); at != std::string_view::npos;
         at = text.find_first_of("=:", at + 1)) {
        if (at < done) continue;
        const std::string_view before = text.substr(done, at - done);
        const auto [begin, end] = value_after(text, at);
        if (end == begin) continue;
        if (!names_a_secret(before) && !is_value_of_named_secret(before, text.substr(end)))
            continue;
        out.append(text.substr(done, begin - done)).append(mask);
        done = end;
    }
    return out.append(text.substr(done));
}

// The part between "://" and "@" of a URL.
std::string without_url_users(std::string_view text) {
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = text.find("://"); at != std::string_view::npos;
         at = text.find("://", at + 3)) {
        const std::size_t begin = at + 3;
        const std::size_t end = text.find_first_of("@/?# \t\r\n\"'<>", begin);
        if (end == std::string_view::npos || text[end] != '@' || end == begin) continue;
        out.append(text.substr(done, begin - done)).append(mask);
        done = end;
    }
    return out.append(text.substr(done));
}

}  // namespace

std::string masked(std::string_view text, const std::vector<std::string>& secrets) {
    std::string out(text);
    for (const std::string& secret : secrets) {
        out = replaced(std::move(out), secret);
        if (const std::string json = as_json(secret); json != secret)
            out = replaced(std::move(out), json);
    }
    return without_named_values(without_url_users(out));
}

std::vector<std::string> secrets_in(const base::Value& object) {
    std::vector<std::string> out;
    if (const base::Value::Object* members = object.object()) {
        for (const base::Value::Member& member : *members) {
            if (const std::string* value = member.second.string(); value && !value->empty())
                out.push_back(*value);
        }
    }
    std::sort(out.begin(), out.end(), [](const std::string& one, const std::string& other) {
        return one.size() > other.size();
    });
    return out;
}

}  // namespace batchai::admin

// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/expansion.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace batchai::plan {

namespace {

bool starts_name(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}
bool continues_name(char c) {
    return starts_name(c) || (c >= '0' && c <= '9');
}

struct Reference {
    std::string_view name;   // empty: the "$" is an ordinary character
    std::size_t length = 1;  // in `text`, from the "$" on
};

// `text` starts with "$".
Reference reference_at(std::string_view text) {
    const bool braced = text.size() > 1 && text[1] == '{';
    const std::size_t begin = braced ? 2 : 1;
    if (begin >= text.size() || !starts_name(text[begin])) return {};
    std::size_t end = begin;
    while (end < text.size() && continues_name(text[end]))
        ++end;
    const std::string_view name = text.substr(begin, end - begin);
    if (!braced) return {name, end};
    if (end >= text.size() || text[end] != '}') return {};
    return {name, end + 1};
}

}  // namespace

void Scope::set(std::string name, std::string value) {
    values_.insert_or_assign(std::move(name), std::move(value));
}

Expanded Scope::expand(std::string_view text) const {
    Expanded out;
    while (!text.empty() && out.text.size() <= longest_argument) {
        const std::size_t dollar = text.find('$');
        out.text += text.substr(0, dollar);
        if (dollar == std::string_view::npos) break;
        text.remove_prefix(dollar);
        const Reference reference = reference_at(text);
        if (reference.name.empty()) {
            out.text += '$';
        } else if (const auto found = values_.find(reference.name); found != values_.end()) {
            out.text += found->second;
        } else if (std::find(out.undefined.begin(), out.undefined.end(), reference.name) ==
                   out.undefined.end()) {
            out.undefined.emplace_back(reference.name);
        }
        text.remove_prefix(reference.length);
    }
    out.too_long = out.text.size() >= longest_argument;
    if (out.too_long) out.text.resize(longest_argument);
    return out;
}

}  // namespace batchai::plan

// SPDX-License-Identifier: GPL-2.0-or-later
#include "storage/pattern.hpp"

#include <cstddef>

namespace batchai::storage {

namespace {

struct Set {
    std::size_t length = 0;  // in the pattern; 0: this is not a set
    bool contains = false;
};

// Reads the set at the start of `pattern`, which begins with "[".
Set set_at(std::string_view pattern, char c) {
    std::size_t at = 1;
    const bool negated = at < pattern.size() && pattern[at] == '!';
    if (negated) ++at;
    const std::size_t first = at;
    bool found = false;
    // A "]" that comes first is a member of the set.
    for (; at < pattern.size() && (pattern[at] != ']' || at == first); ++at) {
        const auto low = static_cast<unsigned char>(pattern[at]);
        auto high = low;
        if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
            high = static_cast<unsigned char>(pattern[at + 2]);
            at += 2;
        }
        const auto byte = static_cast<unsigned char>(c);
        found = found || (low <= byte && byte <= high);
    }
    if (at >= pattern.size()) return {};
    return {at + 1, found != negated};
}

// Returns how much of the pattern stands for the byte `c`; 0 if its start does not.
std::size_t one_byte(std::string_view pattern, char c) {
    if (pattern.empty()) return 0;
    if (pattern.front() == '?') return 1;
    if (pattern.front() == '[') {
        const Set set = set_at(pattern, c);
        if (set.length > 0) return set.contains ? set.length : 0;
    }
    return pattern.front() == c ? 1 : 0;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
    std::size_t p = 0;
    std::size_t n = 0;
    // After the last "*", and how much of the name that one has taken. To come back to an earlier
    // one is never necessary.
    std::size_t star = std::string_view::npos;
    std::size_t taken = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = ++p;
            taken = n;
            continue;
        }
        if (const std::size_t length = one_byte(pattern.substr(p), name[n]); length > 0) {
            p += length;
            ++n;
            continue;
        }
        if (star == std::string_view::npos) return false;
        p = star;
        n = ++taken;
    }
    while (p < pattern.size() && pattern[p] == '*')
        ++p;
    return p == pattern.size();
}

}  // namespace batchai::storage

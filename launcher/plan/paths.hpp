// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Paths as text: nothing here looks at a file system.

namespace batchai::plan {

// Without "." components and doubled or trailing slashes; "/" stays. ".." components are kept.
[[nodiscard]] std::string normalized(std::string_view path);

// Whether `path` is `directory` or below it, by whole components ("/ab" is not below "/a").
// Both normalized and absolute.
[[nodiscard]] bool is_within(std::string_view path, std::string_view directory);

[[nodiscard]] bool has_parent_component(std::string_view path);

// One name of a directory: not empty, not "." or "..", no slash, no control character.
[[nodiscard]] bool is_component(std::string_view name);

// Linux gives a program no argument and no "NAME=value" that is longer, the closing zero included.
inline constexpr std::size_t longest_argument = 128UL << 10U;

struct Expanded {
    std::string text;
    std::vector<std::string> undefined;  // names that expanded to nothing, each once
    bool too_long = false;               // for any use: the text ends where longest_argument does
};

// The variables that strings of job.json may refer to as $NAME or ${NAME}. Nothing else of a
// shell's syntax has a meaning: other text, a "$" before it included, stays as it is.
class Scope {
  public:
    void set(std::string name, std::string value);
    [[nodiscard]] bool contains(std::string_view name) const { return values_.contains(name); }
    // One pass: a "$" in a value is not expanded again. Ends at longest_argument, since a few
    // values of each other could fill all memory.
    [[nodiscard]] Expanded expand(std::string_view text) const;

  private:
    std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace batchai::plan

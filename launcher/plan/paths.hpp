// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Paths as text. Nothing here looks at a file system.

namespace batchai::plan {

// Returns the path without "." components and without doubled or trailing slashes. "/" stays "/",
// and ".." components are kept.
[[nodiscard]] std::string normalized(std::string_view path);

// Returns the path with the home directory in place of a "~" before its first slash.
[[nodiscard]] std::string below_home(std::string_view path, std::string_view home);

// Returns whether `path` is `directory` or below it, by whole components ("/ab" is not below "/a").
// Both must be normalized and absolute.
[[nodiscard]] bool is_within(std::string_view path, std::string_view directory);

[[nodiscard]] bool has_parent_component(std::string_view path);

// Returns whether `name` can be one component of a path: it is not empty, is not "." or "..", and
// has no slash and no control character.
[[nodiscard]] bool is_component(std::string_view name);

// Returns whether every component of the relative path is a name, so that the path cannot lead out
// of the directory that it is appended to. An empty path stays in that directory.
[[nodiscard]] bool stays_below(std::string_view path);

// The most bytes that Linux passes to a program in one argument or one "NAME=value", including the
// terminating zero.
inline constexpr std::size_t longest_argument = 128UL << 10U;

struct Expanded {
    std::string text;
    std::vector<std::string> undefined;  // names that expanded to nothing, each once
    bool too_long = false;               // `text` was cut off at longest_argument bytes
};

// The variables that strings of job.json may refer to as $NAME or ${NAME}. No other shell syntax
// has a meaning: all other text stays as it is, including a "$" that is not followed by a name.
class Scope {
  public:
    void set(std::string name, std::string value);
    [[nodiscard]] bool contains(std::string_view name) const { return values_.contains(name); }
    // Expands in one pass: a "$" in a value is not expanded again. Stops at longest_argument bytes,
    // because a few variables that each repeat the one before could otherwise fill the memory.
    [[nodiscard]] Expanded expand(std::string_view text) const;

  private:
    std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace batchai::plan

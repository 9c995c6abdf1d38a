// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

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

}  // namespace batchai::plan

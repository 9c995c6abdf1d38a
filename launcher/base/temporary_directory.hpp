// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace batchai::base {

// A new directory of mode 0700 with a name that nobody could guess. It is removed with the object.
// Move-only.
class TemporaryDirectory {
  public:
    // Makes `parent`/`prefix`XXXXXX.
    [[nodiscard]] static Result<TemporaryDirectory> make(const std::filesystem::path& parent,
                                                         std::string_view prefix);

    TemporaryDirectory(TemporaryDirectory&& other) noexcept
        : path_(std::exchange(other.path_, {})) {}
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    ~TemporaryDirectory();

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }

  private:
    explicit TemporaryDirectory(std::filesystem::path path) : path_(std::move(path)) {}

    std::filesystem::path path_;
};

}  // namespace batchai::base

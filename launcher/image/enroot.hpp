// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A squashfs file has no configuration of an image. `enroot import` therefore writes the one that
// the image had into two files of the root file system (`docker::_configure` in enroot's
// src/docker.sh), from which pyxis takes it, too.
namespace batchai::image {

// The path of each file, without a slash before it.
inline constexpr const char* start_script_path = "etc/rc";
inline constexpr const char* environment_path = "etc/environment";

struct StartScript {
    std::string working_directory;        // empty: none
    std::vector<std::string> entrypoint;  // empty: none
    bool operator==(const StartScript&) const = default;
};

// Reads enroot's start script. Returns nothing if the text is not one, or if it has been changed so
// that only a shell could tell what it does.
[[nodiscard]] std::optional<StartScript> read_start_script(std::string_view text);

// Returns the entries "NAME=VALUE" of a file with variables. enroot writes values as they are.
// With `of_pam` the file is one that a distribution brings for pam_env(8), which removes "export"
// before a name and quotes around a value.
[[nodiscard]] std::vector<std::string> read_environment_file(std::string_view text, bool of_pam);

}  // namespace batchai::image

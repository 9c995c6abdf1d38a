// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "job/model.hpp"
#include "job/schema/field.hpp"
#include "job/syntax/diagnostic.hpp"
#include "user/parents.hpp"

// The user's own defaults, in a file in TOML:
//
//     [defaults]
//     workspace = "dev"
//
//     [slurm]
//     partition = "gpu"
namespace batchai::user {

struct UserConfig {
    ParentOptions defaults;
    job::SlurmSettings slurm;
    // The line of each value of the file, by its key: "slurm.partition".
    std::map<std::string, std::size_t, std::less<>> lines;
};

struct ParsedUserConfig {
    UserConfig config;
    std::vector<job::Diagnostic> diagnostics;  // each is an error
};

// Reads the text of the file and finds all faults, or the first one that is not TOML.
[[nodiscard]] ParsedUserConfig parse_user_config(std::string_view text);

// Returns all keys that the file may have, such as "slurm.partition".
[[nodiscard]] std::vector<std::string> user_config_keys();

// Returns the value of a key; nothing if the file does not set it.
[[nodiscard]] std::optional<job::Value> setting(const UserConfig& config, std::string_view key);

// Returns the text with one more or another value; all else stays as it is. The error says that the
// key or the value is wrong, or that the text has a form that this function does not change.
[[nodiscard]] base::Result<std::string> with_setting(std::string_view text, std::string_view key,
                                                     std::string_view value);

// Returns "$XDG_CONFIG_HOME/batchai/config.toml"; without that variable, "~/.config" is used.
[[nodiscard]] base::Result<std::filesystem::path> user_config_path();

// Returns the text of the file, which is empty if there is none. Refuses a file that belongs to
// another user than the caller or root, or that others can write to.
[[nodiscard]] base::Result<std::string> read_user_config(const std::filesystem::path& path);

// Sets keys in the user's file, each given as "KEY=VALUE". All else in it stays as it is.
[[nodiscard]] base::Result<void> change_user_config(const std::vector<std::string>& settings);

// Reads the file, once for this process. The error shows each fault with its place.
[[nodiscard]] const base::Result<UserConfig>& user_config();

}  // namespace batchai::user

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"

// The key of a storage account on its way from the user to the job's secrets. No process that we
// start, and no other user, is to see it.
namespace batchai::cli {

// Takes AZURE_BATCHAI_STORAGE_KEY out of this process's environment, which everything that we start
// inherits, and overwrites the value of --storage-account-key in the argument vector, which every
// user can read with ps. To be called first of all, after the words were copied.
void hide_storage_key(int count, char** words);

// What AZURE_BATCHAI_STORAGE_KEY said; nothing when it was empty or not set.
[[nodiscard]] std::optional<std::string> storage_key_of_environment();

// The value of --storage-account-key: the key itself, or "@FILE" for the first line of a file.
[[nodiscard]] base::Result<std::string> storage_key_of_option(const std::string& value);

}  // namespace batchai::cli

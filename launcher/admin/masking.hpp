// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

// Takes secrets out of texts that are to be given away.
namespace batchai::admin {

// Replaces a secret by this.
inline constexpr std::string_view mask = "***";

// Returns the text with each of these secrets replaced, as they are and as JSON strings have them.
// Also replaces what usually is a secret wherever it comes from: the name and password in a URL,
// and the value after the names that storage accounts and programs use, such as "sig=",
// "AccountKey=" and "password:". The result may therefore lack more than secrets.
[[nodiscard]] std::string masked(std::string_view text, const std::vector<std::string>& secrets);

// Returns the strings of the object of a job's secrets, the longest first, so that none is replaced
// only in part.
[[nodiscard]] std::vector<std::string> secrets_in(const base::Value& object);

}  // namespace batchai::admin

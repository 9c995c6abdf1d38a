// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "base/utf8.hpp"

// Texts of job files in messages.
namespace batchai::job {

using base::is_unprintable;
using base::is_utf8;
using base::printable;
using base::utf8_append;
using base::utf8_decode;
using base::utf8_sequence;

// Returns whether a text that should be a name looks like a token, a key or a password that
// somebody has written there instead.
[[nodiscard]] bool looks_like_secret(std::string_view text);

// Does what quote() does, unless the text looks like a secret.
[[nodiscard]] std::string quote_name(std::string_view text);

// Returns the text for a message: in double quotes, printable, and cut to 60 characters.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace batchai::job

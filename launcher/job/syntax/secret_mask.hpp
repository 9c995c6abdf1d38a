// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::job {

// A job file's text with each character of a secret's value replaced by "*", so that it may be
// shown: what stands behind a key that the field table calls secret, unless it is a placeholder in
// < >. Works on broken files too; when in doubt it masks. Lines and columns stay as they are.
[[nodiscard]] std::string mask_secrets(std::string_view source);

}  // namespace batchai::job

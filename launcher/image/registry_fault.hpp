// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

namespace batchai::image {

// What skopeo was asked for, for messages.
struct Question {
    std::string image;              // as the user wrote it
    std::string registry;           // empty: the image is in a file or directory
    std::string credential_source;  // in words: "containerSettings.credentials (user me)", "none"
};

// Tells from what skopeo printed which of a handful of faults it is: the registry cannot be
// reached, refuses, does not know the image, wants TLS or another authority. What skopeo said
// stays in the message where it says more than we do. `exit_code` of the error: not_found when the
// image is not there, timed_out, refused when credentials are wrong, else failed.
[[nodiscard]] base::Error explain(std::string_view standard_error, const Question& question);

// The text of skopeo's last message: without time and level, quotes undone.
[[nodiscard]] std::string last_message(std::string_view standard_error);

}  // namespace batchai::image

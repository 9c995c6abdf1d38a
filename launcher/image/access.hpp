// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/credentials.hpp"
#include "image/reference.hpp"
#include "plan/plan.hpp"
#include "site/site.hpp"

namespace batchai::image {

// How skopeo may ask one registry.
struct Access {
    std::string registry;                        // empty: none is asked, the image is a file
    std::string auth_file;                       // for --authfile; empty: without credentials
    std::string credential_source = "none";      // in words, for messages
    bool insecure = false;                       // without TLS, or without a look at certificates
    std::optional<TemporaryAuthFile> temporary;  // holds `auth_file`, where that is ours

    // The options of skopeo that say so. No secret is in them.
    [[nodiscard]] std::vector<std::string> options() const;
};

// At submission: the job file's credentials if it has any, else what the user's own files say.
[[nodiscard]] base::Result<Access> access_for(const Reference& reference, const site::Site& site,
                                              const std::optional<Login>& login);

// For the image of a plan: the file that submission left in the plan's directory if it is there,
// else the user's own files.
[[nodiscard]] base::Result<Access> access_of_job(const plan::Container& container,
                                                 const std::string& plan_directory);

}  // namespace batchai::image

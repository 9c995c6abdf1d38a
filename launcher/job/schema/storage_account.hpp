// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/model.hpp"
#include "job/parse.hpp"
#include "job/syntax/diagnostic.hpp"

namespace batchai::job {

inline constexpr std::string_view account_placeholder = "<AZURE_BATCHAI_STORAGE_ACCOUNT>";
inline constexpr std::string_view key_placeholder = "<AZURE_BATCHAI_STORAGE_KEY>";

struct StorageAccount {
    std::string name;
    std::optional<std::string> key;  // secret; absent: the site knows how to open the account
};

// The parts of https://<account>.file.core.windows.net/<share>[/<directory>]. No component of the
// directory is "." or "..". The account may be the placeholder.
struct AzureFileLocation {
    std::string account;
    std::string share;
    std::string directory;  // without slashes at either end; may be empty
    bool operator==(const AzureFileLocation&) const = default;
};

// Returns nothing if the URL is ill-formed: it is not http(s), the host has no dot, there is no
// share, a component leaves the share, or there is a query or a fragment.
[[nodiscard]] std::optional<AzureFileLocation> azure_file_location(std::string_view url);

// Replaces the placeholders of account and key in the job's file shares and blob containers. A file
// share without an account name gets the one in its URL. A placeholder in any other setting is left
// alone. If the account is known but its key is not, a key placeholder leaves the credentials of
// the mount to the site. Returns the faults: a placeholder without an account, or a URL that is
// ill-formed after the replacement.
[[nodiscard]] std::vector<Diagnostic> apply_storage_account(
    JobSpec& spec, const std::optional<StorageAccount>& account, const PositionTable& positions);

}  // namespace batchai::job

// SPDX-License-Identifier: GPL-2.0-or-later
#include "site/remote_storage.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace batchai::site {

namespace {

// Of all backends; rclone calls them passwords or marks them as sensitive.
constexpr std::array<std::string_view, 13> secret_names = {
    "pass",          "password",      "key",          "secret_access_key", "session_token",
    "token",         "client_secret", "bearer_token", "sas_url",           "key_pem",
    "key_file_pass", "access_token",  "api_key"};

bool is_option_name(std::string_view name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
}

}  // namespace

std::string_view usual_secret_option(std::string_view backend) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 7> known = {{
        {"azureblob", "key"},
        {"ftp", "pass"},
        {"s3", "secret_access_key"},
        {"sftp", "pass"},
        {"smb", "pass"},
        {"swift", "key"},
        {"webdav", "pass"},
    }};
    for (const auto& [name, option] : known) {
        if (name == backend) return option;
    }
    return {};
}

void read_remote_storage(TableReader& table, std::string_view key,
                         std::optional<RemoteStorage>& storage) {
    std::vector<std::pair<std::string, std::string>> entries;
    table.pairs(key, entries);
    if (entries.empty()) return;
    RemoteStorage read;
    bool secret_given = false;
    for (auto& [name, value] : entries) {
        if (name == "type") {
            read.backend = value;
        } else if (name == "path") {
            read.path = value;
        } else if (name == "secret") {
            secret_given = true;
            read.secret_option = value;
        } else if (std::find(secret_names.begin(), secret_names.end(), name) !=
                   secret_names.end()) {
            return table.refuse(key,
                                fmt::format("{} is a secret, and everybody reads this file", name),
                                "put it in the account's credentials_file");
        } else if (!is_option_name(name)) {
            return table.refuse(key, fmt::format("\"{}\" cannot be an option of rclone", name),
                                "they have lower-case letters, digits and \"_\"");
        } else {
            read.options.emplace_back(name, std::move(value));
        }
    }
    if (!is_option_name(read.backend))
        return table.refuse(key, "has no type", "write type = \"smb\" or another of rclone's");
    if (!secret_given) read.secret_option = usual_secret_option(read.backend);
    if (!read.secret_option.empty() && !is_option_name(read.secret_option))
        return table.refuse(key, "secret must be the name of an option, or empty");
    storage = std::move(read);
}

}  // namespace batchai::site

// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/storage_account.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/schema/faults.hpp"

namespace batchai::job {

namespace {

// The wording is Batch AI's, so that what users find about these messages still helps.
constexpr std::string_view no_account =
    "Please configure Azure Storage account name via AZURE_BATCHAI_STORAGE_ACCOUNT or provide "
    "storage_account value in batchai section of your az configuration file.";
constexpr std::string_view no_key =
    "Please configure Azure Storage account key via AZURE_BATCHAI_STORAGE_KEY or provide "
    "storage_key value in batchai section of your az configuration file.";

bool is_host_character(char c) {
    return base::is_letter(c) || base::is_digit(c) || c == '-' || c == '_';
}

bool is_component(std::string_view name) {
    const auto harmful = [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte <= 0x20 || byte == 0x7F || c == '\\' || c == '?' || c == '#';
    };
    return !name.empty() && name != "." && name != ".." &&
           std::none_of(name.begin(), name.end(), harmful);
}

class Replacement {
  public:
    Replacement(const std::optional<StorageAccount>& account, const PositionTable& positions)
        : account_(account), positions_(positions) {}

    void name(std::optional<std::string>& value, const std::string& pointer) {
        if (value) name(*value, pointer);
    }

    void name(std::string& value, const std::string& pointer) {
        if (value != account_placeholder) return;
        if (account_) {
            value = account_->name;
        } else {
            missing(no_account, pointer);
        }
    }

    void url(std::string& value, const std::string& pointer) {
        std::size_t at = value.find(account_placeholder);
        if (at == std::string::npos) return;
        if (!account_) {
            missing(no_account, pointer);
            return;
        }
        for (; at != std::string::npos;
             at = value.find(account_placeholder, at + account_->name.size())) {
            value.replace(at, account_placeholder.size(), account_->name);
        }
        if (!azure_file_location(value)) {
            diagnostics_.push_back(
                make_diagnostic(Fault::storage_account, positions_.find(pointer),
                                fmt::format("Ill-formed Azure File URL \"{}\"", value),
                                "check the name of the storage account"));
        }
    }

    void credentials(std::optional<StorageCredentials>& value, const std::string& pointer) {
        if (!value || value->account_key != key_placeholder) return;
        if (!account_) {
            missing(no_key, pointer);
        } else if (account_->key) {
            value->account_key = account_->key;
        } else {
            value.reset();
        }
    }

    std::vector<Diagnostic> take() { return std::move(diagnostics_); }

  private:
    void missing(std::string_view message, const std::string& pointer) {
        diagnostics_.push_back(make_diagnostic(Fault::storage_account, positions_.find(pointer),
                                               std::string(message)));
    }

    const std::optional<StorageAccount>& account_;
    const PositionTable& positions_;
    std::vector<Diagnostic> diagnostics_;
};

}  // namespace

std::optional<AzureFileLocation> azure_file_location(std::string_view url) {
    if (url.starts_with("https://")) {
        url.remove_prefix(8);
    } else if (url.starts_with("http://")) {
        url.remove_prefix(7);
    } else {
        return std::nullopt;
    }
    AzureFileLocation location;
    const std::size_t dot = url.find('.');
    const std::size_t slash = url.find('/');
    if (dot == std::string_view::npos || slash == std::string_view::npos || dot > slash) {
        return std::nullopt;
    }
    location.account = std::string(url.substr(0, dot));
    std::string_view bare = location.account;
    if (bare == account_placeholder) bare = "placeholder";
    if (bare.empty() || !std::all_of(bare.begin(), bare.end(), is_host_character)) {
        return std::nullopt;
    }
    std::string_view path = url.substr(slash + 1);
    while (path.ends_with('/'))
        path.remove_suffix(1);
    for (const std::string_view component : base::split(path, '/')) {
        if (!is_component(component)) return std::nullopt;
    }
    const std::size_t end_of_share = std::min(path.find('/'), path.size());
    location.share = std::string(path.substr(0, end_of_share));
    if (end_of_share < path.size()) location.directory = std::string(path.substr(end_of_share + 1));
    return location;
}

namespace {

void set_account_of_url(AzureFileShare& share) {
    if (share.account_name) return;
    const auto location = azure_file_location(share.azure_file_url);
    if (location && location->account != account_placeholder)
        share.account_name = location->account;
}

}  // namespace

std::vector<Diagnostic> apply_storage_account(JobSpec& spec,
                                              const std::optional<StorageAccount>& account,
                                              const PositionTable& positions) {
    Replacement replacement(account, positions);
    each_volume(spec.mount_volumes, [&]<typename Volume>(Volume& volume, std::size_t index) {
        const std::string at = fmt::format("/properties/mountVolumes/{}/{}/", Volume::key, index);
        if constexpr (requires { volume.azure_file_url; })
            replacement.url(volume.azure_file_url, at + "azureFileUrl");
        if constexpr (requires { volume.account_name; })
            replacement.name(volume.account_name, at + "accountName");
        if constexpr (requires { volume.credentials; })
            replacement.credentials(volume.credentials, at + "credentials/accountKey");
        if constexpr (requires { volume.azure_file_url; }) set_account_of_url(volume);
    });
    return replacement.take();
}

}  // namespace batchai::job

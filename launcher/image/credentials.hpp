// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/reference.hpp"
#include "plan/plan.hpp"
#include "site/site.hpp"

// Credentials of registries. They travel in files of mode 0600 that skopeo reads, never in
// arguments.

namespace batchai::image {

struct Login {
    std::string username;
    std::string password;  // secret
};

// The text of an authfile (the form of ~/.docker/config.json) that opens one registry.
[[nodiscard]] std::string auth_file_text(const std::string& registry, const Login& login);

// Where the credentials of a job file wait for the job's start.
[[nodiscard]] std::string auth_file_of_job(const std::string& job_directory);

// An authfile in the temporary directory, 0600, that goes with the object.
class TemporaryAuthFile {
  public:
    [[nodiscard]] static base::Result<TemporaryAuthFile> create(const std::string& text);
    TemporaryAuthFile(TemporaryAuthFile&& other) noexcept : path_(std::move(other.path_)) {
        other.path_.clear();
    }
    TemporaryAuthFile(const TemporaryAuthFile&) = delete;
    TemporaryAuthFile& operator=(const TemporaryAuthFile&) = delete;
    TemporaryAuthFile& operator=(TemporaryAuthFile&&) = delete;
    ~TemporaryAuthFile();

    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    explicit TemporaryAuthFile(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

// What the user's own files have for a registry: $REGISTRY_AUTH_FILE, else
// $XDG_RUNTIME_DIR/containers/auth.json, else ~/.docker/config.json, in skopeo's order.
struct OwnCredentials {
    std::string source;  // in words, for messages; "none"
    std::string file;    // for skopeo's --authfile; empty when there is nothing for the registry
    // The name of Docker's "credsStore", which skopeo does not ask by itself; or empty.
    std::string store;
};
[[nodiscard]] OwnCredentials own_credentials(const std::string& registry);

// Asks docker-credential-<store>, as docker does.
[[nodiscard]] base::Result<Login> ask_store(const std::string& store, const std::string& registry);

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

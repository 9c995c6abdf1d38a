// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "image/frozen.hpp"
#include "image/reference.hpp"
#include "site/site.hpp"

// Credentials for registries. skopeo gets them in files that only the user can read, never in its
// arguments.

namespace batchai::image {

struct Login {
    std::string username;
    std::string password;  // secret
};

// Returns the text of an authfile (in the format of ~/.docker/config.json) with the credentials for
// one registry.
[[nodiscard]] std::string auth_file_text(const std::string& registry, const Login& login);

// Returns the passwords in such a text, each also as it is written there. The error does not quote
// it.
[[nodiscard]] base::Result<std::vector<std::string>> secrets_in_auth_file(std::string_view text);

// Returns the path of the file that keeps the credentials of a job file.
[[nodiscard]] std::string auth_file_of_job(const std::string& job_directory);

// An authfile in memory, which also goes if this process is killed.
class TemporaryAuthFile {
  public:
    [[nodiscard]] static base::Result<TemporaryAuthFile> create(const std::string& text);

    // Other processes of the user can open it while the object exists.
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    explicit TemporaryAuthFile(base::FileDescriptor file);
    base::FileDescriptor file_;
    std::string path_;
};

// What the user's own files have for a registry. They are searched in skopeo's order:
// $REGISTRY_AUTH_FILE alone if it is set, else $XDG_RUNTIME_DIR/containers/auth.json, then
// ~/.config/containers/auth.json, and then ~/.docker/config.json.
struct OwnCredentials {
    std::string source;  // in words, for messages; "none" if nothing was found
    std::string file;    // for skopeo's --authfile; empty if no file has the registry
    // The name of Docker's "credsStore", or empty. skopeo does not ask this store by itself.
    std::string store;
};
[[nodiscard]] OwnCredentials own_credentials(const std::string& registry);

// Asks docker-credential-<store>, as docker does.
[[nodiscard]] base::Result<Login> ask_store(const std::string& store, const std::string& registry);

// How skopeo accesses one registry.
struct Access {
    std::string registry;                        // empty: the image is a file, no registry is asked
    std::string auth_file;                       // for --authfile; empty: without credentials
    std::string credential_source = "none";      // in words, for messages
    bool insecure = false;                       // no TLS, or certificates are not checked
    std::optional<TemporaryAuthFile> temporary;  // owns `auth_file` if it is temporary

    // Returns the corresponding options of skopeo, which contain no secret.
    [[nodiscard]] std::vector<std::string> options() const;
};

// Used at submission: takes the job file's credentials if it has any, else the user's own files.
[[nodiscard]] base::Result<Access> access_for(const Reference& reference, const site::Site& site,
                                              const std::optional<Login>& login);

// Used for the image of a plan: takes the file that the submission left in the plan's directory if
// it exists, else the user's own files.
[[nodiscard]] base::Result<Access> access_of_job(const FrozenImage& frozen,
                                                 const std::string& plan_directory);

}  // namespace batchai::image

// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/credentials.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/file_in_memory.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "record/job_files.hpp"

namespace batchai::image {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t config_limit = 1UL << 20U;
constexpr std::string_view docker_hub_key = "https://index.docker.io/v1/";

std::string base64(std::string_view bytes) {
    // OpenSSL ends the text with a zero byte.
    std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
    out.resize(static_cast<std::size_t>(size));
    return out;
}

// Reverses base64().
std::optional<std::string> decoded(std::string_view text) {
    std::string out(text.size(), '\0');
    const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
    if (size < 0) return std::nullopt;
    // OpenSSL counts the bytes for which the padding stands.
    const auto padding = std::count(text.begin(), text.end(), '=');
    out.resize(static_cast<std::size_t>(std::max<std::ptrdiff_t>(size - padding, 0)));
    return out;
}

// The keys under which a configuration may have a registry.
std::vector<std::string> keys_of(const std::string& registry) {
    std::vector<std::string> keys{registry, "https://" + registry, "http://" + registry,
                                  "https://" + registry + "/v1/", "https://" + registry + "/v2/"};
    if (registry == "docker.io")
        keys.insert(keys.end(), {std::string(docker_hub_key), "index.docker.io"});
    return keys;
}

bool has_registry(const base::Value& table, const std::string& registry) {
    const auto keys = keys_of(registry);
    return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
        const base::Value& entry = table[key];
        // Docker leaves an empty entry for each registry whose password is in its store.
        return entry.is_object() ? !entry.object()->empty() : !entry.is_null();
    });
}

// Returns the user's configurations in the order in which skopeo reads them.
std::vector<fs::path> configurations() {
    if (const auto file = base::variable("REGISTRY_AUTH_FILE")) return {*file};
    std::vector<fs::path> out;
    if (const auto run = base::variable("XDG_RUNTIME_DIR"))
        out.emplace_back(*run + "/containers/auth.json");
    else
        out.emplace_back(fmt::format("/run/containers/{}/auth.json", getuid()));
    const auto home = base::variable("HOME");
    if (const auto config = base::variable("XDG_CONFIG_HOME"))
        out.emplace_back(*config + "/containers/auth.json");
    else if (home)
        out.emplace_back(*home + "/.config/containers/auth.json");
    if (const auto docker = base::variable("DOCKER_CONFIG"))
        out.emplace_back(*docker + "/config.json");
    else if (home)
        out.emplace_back(*home + "/.docker/config.json");
    return out;
}

}  // namespace

std::string auth_file_text(const std::string& registry, const Login& login) {
    const base::Value::Object entry{{"auth", base64(login.username + ":" + login.password)}};
    const base::Value::Object auths{{registry, entry}};
    return base::format_json(base::Value::Object{{"auths", auths}});
}

base::Result<std::vector<std::string>> secrets_in_auth_file(std::string_view text) {
    const auto file = base::parse_json(text, "registry-auth.json");
    const base::Value::Object* const entries = file ? (*file)["auths"].object() : nullptr;
    // The parser's own message could quote a secret.
    if (entries == nullptr) return base::fail("is not a file of credentials");
    std::vector<std::string> secrets;
    for (const auto& [registry, entry] : *entries) {
        const std::string* const encoded = entry["auth"].string();
        if (encoded == nullptr) continue;
        secrets.push_back(*encoded);
        const auto login = decoded(*encoded);
        if (!login) return base::fail("has credentials that cannot be decoded");
        const std::size_t colon = login->find(':');
        if (colon != std::string::npos && colon + 1 < login->size())
            secrets.push_back(login->substr(colon + 1));
    }
    return secrets;
}

std::string auth_file_of_job(const std::string& job_directory) {
    return record::JobFiles(job_directory).registry_auth().string();
}

TemporaryAuthFile::TemporaryAuthFile(base::FileDescriptor file)
    : file_(std::move(file)), path_(fmt::format("/proc/{}/fd/{}", getpid(), file_.get())) {}

base::Result<TemporaryAuthFile> TemporaryAuthFile::create(const std::string& text) {
    return TemporaryAuthFile(TRY(base::file_in_memory("registry credentials", text)));
}

OwnCredentials own_credentials(const std::string& registry) {
    for (const fs::path& path : configurations()) {
        const auto text = base::read_file(path, config_limit);
        if (!text) continue;
        const auto config = base::parse_json(*text, path.string());
        // skopeo reads the same file and reports what is wrong with it.
        if (!config) return {path.string(), path.string(), {}};
        for (const std::string& key : keys_of(registry)) {
            if (const std::string* const helper = (*config)["credHelpers"][key].string())
                return {fmt::format("docker-credential-{} (named in {})", *helper, path.string()),
                        path.string(),
                        {}};
        }
        if (has_registry((*config)["auths"], registry)) return {path.string(), path.string(), {}};
        if (const std::string* const store = (*config)["credsStore"].string())
            return {fmt::format("docker-credential-{} (named in {})", *store, path.string()),
                    {},
                    *store};
    }
    return {"none", {}, {}};
}

base::Result<Login> ask_store(const std::string& store, const std::string& registry) {
    base::RunOptions options;
    options.standard_input = registry == "docker.io" ? std::string(docker_hub_key) : registry;
    options.deadline = std::chrono::seconds(30);
    const std::string program = "docker-credential-" + store;
    const auto done = TRY(base::run({program, "get"}, options));
    if (done.exit_code != 0)
        return base::fail("has no credentials for " + registry, program, {},
                          base::ExitCode::not_found);
    // The parser's own message is not used, because it could quote the password.
    const auto answer = base::parse_json(done.standard_output, program);
    const std::string* const username = answer ? (*answer)["Username"].string() : nullptr;
    const std::string* const secret = answer ? (*answer)["Secret"].string() : nullptr;
    if (username == nullptr || secret == nullptr)
        return base::fail("gave an answer that cannot be read", program);
    return Login{*username, *secret};
}

namespace {

base::Result<void> use_temporary(Access& access, const Login& login) {
    auto file = TRY(TemporaryAuthFile::create(auth_file_text(access.registry, login)));
    access.temporary.emplace(std::move(file));
    access.auth_file = access.temporary->path();
    return {};
}

base::Result<Access> with_own_credentials(Access access) {
    OwnCredentials own = own_credentials(access.registry);
    access.credential_source = own.source;
    access.auth_file = own.file;
    if (own.store.empty()) return access;
    const auto login = ask_store(own.store, access.registry);
    if (!login && login.error().exit_code == base::ExitCode::not_found) {
        access.credential_source = "none";
        return access;
    }
    if (!login) return tl::unexpected<base::Error>(login.error());
    TRY(use_temporary(access, *login));
    return access;
}

Access plain_access(const std::string& registry, bool insecure) {
    Access access;
    access.registry = registry;
    access.insecure = insecure;
    return access;
}

}  // namespace

std::vector<std::string> Access::options() const {
    std::vector<std::string> out;
    if (insecure) out.emplace_back("--tls-verify=false");
    if (!auth_file.empty()) out.push_back("--authfile=" + auth_file);
    return out;
}

base::Result<Access> access_for(const Reference& reference, const site::Site& site,
                                const std::optional<Login>& login) {
    if (reference.kind != Kind::registry) return Access{};
    Access access =
        plain_access(reference.registry, site.insecure_registries.contains(reference.registry));
    if (!login) return with_own_credentials(std::move(access));
    access.credential_source =
        fmt::format("containerSettings.imageSourceRegistry.credentials (user {})", login->username);
    TRY(use_temporary(access, *login));
    return access;
}

base::Result<Access> access_of_job(const FrozenImage& frozen, const std::string& plan_directory) {
    constexpr std::string_view transport = "docker://";
    if (!frozen.source.starts_with(transport)) return Access{};
    const std::string rest = frozen.source.substr(transport.size());
    Access access = plain_access(rest.substr(0, rest.find('/')), frozen.insecure_registry);
    const std::string file = auth_file_of_job(plan_directory);
    if (::access(file.c_str(), R_OK) == 0) {
        access.auth_file = file;
        access.credential_source = "containerSettings.imageSourceRegistry.credentials";
        return access;
    }
    return with_own_credentials(std::move(access));
}

}  // namespace batchai::image

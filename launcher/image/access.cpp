// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/access.hpp"

#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace batchai::image {

namespace {

base::Result<void> use_temporary(Access& access, const Login& login) {
    auto file = TemporaryAuthFile::create(auth_file_text(access.registry, login));
    if (!file) return tl::unexpected<base::Error>(file.error());
    access.temporary.emplace(std::move(*file));
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
    if (auto used = use_temporary(access, *login); !used)
        return tl::unexpected<base::Error>(used.error());
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
    if (auto used = use_temporary(access, *login); !used)
        return tl::unexpected<base::Error>(used.error());
    return access;
}

base::Result<Access> access_of_job(const plan::Container& container,
                                   const std::string& plan_directory) {
    constexpr std::string_view transport = "docker://";
    if (!container.source.starts_with(transport)) return Access{};
    const std::string rest = container.source.substr(transport.size());
    Access access = plain_access(rest.substr(0, rest.find('/')), container.insecure_registry);
    const std::string file = auth_file_of_job(plan_directory);
    if (::access(file.c_str(), R_OK) == 0) {
        access.auth_file = file;
        access.credential_source = "containerSettings.imageSourceRegistry.credentials";
        return access;
    }
    return with_own_credentials(std::move(access));
}

}  // namespace batchai::image

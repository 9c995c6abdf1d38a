// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/container.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "image/reference.hpp"
#include "plan/make.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

constexpr std::array<std::string_view, 3> of_the_user{"HOME", "USER", "LOGNAME"};

constexpr std::string_view usual_path =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

}  // namespace

const std::vector<std::string_view>& variables_of_host_software() {
    static const std::vector<std::string_view> names{"LD_LIBRARY_PATH",
                                                     "LD_PRELOAD",
                                                     "LD_AUDIT",
                                                     "PYTHONHOME",
                                                     "PYTHONPATH",
                                                     "VIRTUAL_ENV",
                                                     "CONDA_PREFIX",
                                                     "CONDA_DEFAULT_ENV",
                                                     "CONDA_EXE",
                                                     "PERL5LIB",
                                                     "PERLLIB",
                                                     "BASH_ENV",
                                                     "ENV",
                                                     "MODULEPATH",
                                                     "MODULESHOME",
                                                     "LOADEDMODULES",
                                                     "_LMFILES_",
                                                     "LMOD_CMD",
                                                     "OPAL_PREFIX",
                                                     "LIBRARY_PATH",
                                                     "CPATH",
                                                     "LOCPATH",
                                                     "GIO_MODULE_DIR",
                                                     "PMIX_INSTALL_PREFIX"};
    return names;
}

std::vector<Variable> image_environment(const Container& container) {
    const auto& of_image = container.environment;
    std::vector<Variable> made;
    const bool has_path =
        std::any_of(of_image.begin(), of_image.end(),
                    [](const Variable& variable) { return variable.name == "PATH"; });
    if (!has_path) made.push_back({"PATH", std::string(usual_path)});
    std::copy_if(of_image.begin(), of_image.end(), std::back_inserter(made),
                 [](const Variable& variable) {
                     return std::find(of_the_user.begin(), of_the_user.end(), variable.name) ==
                            of_the_user.end();
                 });
    return made;
}

std::int64_t memory_bytes(std::string_view text) {
    std::int64_t number = 0;
    std::size_t at = 0;
    for (; at < text.size() && base::is_digit(text[at]); ++at)
        number = number * 10 + (text[at] - '0');
    const std::string unit = base::lower(text.substr(at));
    constexpr std::int64_t most = std::int64_t{1} << 62U;
    const unsigned shift = unit.starts_with('k')   ? 10U
                           : unit.starts_with('m') ? 20U
                           : unit.starts_with('g') ? 30U
                                                   : 0U;
    return number > (most >> shift) ? most : number << shift;
}

namespace {

constexpr std::string_view settings_pointer = "/properties/containerSettings";

std::string registry_pointer(std::string_view key) {
    return fmt::format("{}/imageSourceRegistry/{}", settings_pointer, key);
}

std::string with_user(std::string path, const std::string& user) {
    for (auto at = path.find("%u"); at != std::string::npos; at = path.find("%u", at + user.size()))
        path.replace(at, 2, user);
    return path;
}

// The task prolog comes first, so that the site's own binds can replace it. Without it, Slurm ends
// each task.
std::vector<HostBind> site_binds(const site::Site& site, const std::string& user,
                                 const std::string& task_prolog) {
    std::vector<HostBind> binds;
    if (task_prolog.starts_with('/'))
        binds.push_back({task_prolog, task_prolog, /*read_only=*/true, /*optional=*/true});
    for (const site::ContainerBind& bind : site.container_binds)
        binds.push_back({with_user(bind.source, user), with_user(bind.target, user), bind.read_only,
                         bind.optional});
    return binds;
}

bool in_key_vault(const job::ContainerSettings& settings) {
    return settings.credentials && settings.credentials->password_secret_reference;
}

bool lacks_encryption(const image::Reference& reference, const site::Site& site) {
    return reference.plain_http && !site.insecure_registries.contains(reference.registry);
}

void check_credentials(Planning& planning, const job::ContainerSettings& settings) {
    if (!in_key_vault(settings)) return;
    planning.findings.add(
        Finding::secret_reference, registry_pointer("credentials/passwordSecretReference"),
        "the registry's password is in a key vault, which this program cannot open",
        fmt::format("{}, or leave the credentials to ~/.docker/config.json", instead_of_key_vault));
}

void check_reference(Planning& planning, const job::ContainerSettings& settings) {
    const auto reference = image::parse(settings.image, settings.server_url);
    if (!reference) {
        const image::BadReference& fault = reference.error();
        planning.findings.add(Finding::bad_image,
                              registry_pointer(fault.in_server_url ? "serverUrl" : "image"),
                              fault.what, fault.hint);
        return;
    }
    if (lacks_encryption(*reference, planning.site)) {
        planning.findings.add(
            Finding::bad_image, registry_pointer("serverUrl"),
            fmt::format("{} would be contacted without encryption", reference->registry),
            "write https://, or ask the admin to add it to insecure_registries in site.lua");
    }
}

// A variable that the planner has already set wins over the image's, as it does on the nodes.
void offer_image_environment(Planning& planning, const Container& container) {
    for (const Variable& variable : image_environment(container)) {
        const auto& set = planning.plan.environment;
        const bool is_ours = std::any_of(set.begin(), set.end(), [&](const Variable& other) {
            return other.name == variable.name;
        });
        if (!is_ours) planning.scope.set(variable.name, variable.value);
    }
}

}  // namespace

bool may_ask_for_image(const job::ContainerSettings& settings, const site::Site& site) {
    const auto reference = image::parse(settings.image, settings.server_url);
    return reference && !lacks_encryption(*reference, site) && !in_key_vault(settings) &&
           policy_allows(site, image_name(settings, std::nullopt));
}

void plan_container(Planning& planning) {
    const auto& settings = planning.spec.container_settings;
    if (!settings) return;
    if (planning.inputs.ignore_container) {
        planning.plan.notices.push_back(
            fmt::format("containerSettings are ignored: the job runs directly on the nodes, not in "
                        "{}",
                        settings->image));
        return;
    }
    check_reference(planning, *settings);
    check_credentials(planning, *settings);
    Container& container = planning.plan.container.emplace();
    if (planning.inputs.image) static_cast<image::FrozenImage&>(container) = *planning.inputs.image;
    offer_image_environment(planning, container);
    container.image = settings->image;
    if (settings->shm_size) container.shm_bytes = memory_bytes(*settings->shm_size);
    if (!planning.site.image_entrypoint) container.entrypoint.clear();
    container.binds =
        site_binds(planning.site, planning.inputs.user_name, planning.inputs.task_prolog);
    container.inject = planning.site.inject_mpi_bridge;
}

}  // namespace batchai::plan

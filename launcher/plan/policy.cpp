// SPDX-License-Identifier: GPL-2.0-or-later
// The site's policy, as far as it is known at submission. slurmctld checks the same rules again
// (lua/job_submit.lua.in), because users can submit with Slurm's commands alone.
#include "site/policy.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "image/reference.hpp"
#include "plan/container.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

constexpr std::string_view node_count_pointer = "/properties/nodeCount";
constexpr std::string_view wall_clock_time = "/properties/constraints/maxWallClockTime";
constexpr std::string_view image_pointer =
    "/properties/containerSettings/imageSourceRegistry/image";
// Between the VM size and the image of a declaration.
constexpr std::string_view image_word = " image=";
constexpr std::string_view account_pointer = "/properties/slurm/account";

// The VM size of the job's cluster; empty if it has none. This site.lua may be the user's own and
// not know the size, but slurmctld reads the admin's.
std::string vm_size_name(const Planning& planning) {
    const auto& cluster = planning.inputs.cluster;
    return cluster ? base::upper(cluster->vm_size) : std::string();
}

std::string of_size(std::string_view vm_size) {
    return vm_size.empty() ? std::string() : fmt::format(" of {}", vm_size);
}

void check_limits(Planning& planning, std::string_view vm_size) {
    const std::string& user = planning.inputs.user_name;
    const auto limits = site::limits_for(planning.site.policy, user, vm_size);
    const Allocation& allocation = planning.plan.allocation;
    if (limits.nodes && allocation.all_nodes() > *limits.nodes)
        planning.findings.add(
            Finding::against_policy, node_count_pointer,
            fmt::format("the job asks for {} nodes{}; this site lets {} use at most {} in a job",
                        allocation.all_nodes(), of_size(vm_size), user, *limits.nodes),
            allocation.spare_nodes > 0
                ? std::string("lower \"nodeCount\" or \"spareNodes\", or ask the admin")
                : fmt::format("lower \"nodeCount\" to {}, or ask the admin", *limits.nodes));
    const auto minutes = allocation.time_limit.count();
    if (limits.minutes && minutes > *limits.minutes)
        planning.findings.add(
            Finding::against_policy, wall_clock_time,
            fmt::format("the job asks for {} minutes{}; this site lets {} use at most {}", minutes,
                        of_size(vm_size), user, *limits.minutes),
            fmt::format("write \"PT{}M\", or ask the admin", *limits.minutes));
}

// An account that a default of the user in Slurm gives is known only to slurmctld.
void check_account(Planning& planning, std::string_view vm_size,
                   const std::vector<std::string>& allowed) {
    if (allowed.empty()) return;
    for (const SlurmOption& option : planning.plan.allocation.options) {
        if (option.name != "account") continue;
        const std::string account = base::lower(option.value);
        if (std::find(allowed.begin(), allowed.end(), account) != allowed.end()) return;
        planning.findings.add(
            Finding::against_policy,
            option.origin == Origin::job_file ? account_pointer : std::string_view(),
            fmt::format("the account \"{}\" is not one of those that this site requires for jobs{}",
                        option.value, of_size(vm_size)),
            fmt::format("it allows {}", fmt::join(allowed, ", ")));
    }
}

void check_image(Planning& planning, const std::string& image) {
    if (policy_allows(planning.site, image)) return;
    planning.findings.add(
        Finding::against_policy, image_pointer,
        fmt::format("this site does not allow the image {}", image),
        fmt::format("it allows {}", fmt::join(planning.site.policy.images, ", ")));
}

}  // namespace

std::string_view declared_image(const Plan& plan) {
    const std::string_view declaration = plan.declaration;
    const std::size_t at = declaration.find(image_word);
    return at == std::string_view::npos ? std::string_view()
                                        : declaration.substr(at + image_word.size());
}

std::string image_name(const job::ContainerSettings& settings,
                       const std::optional<image::FrozenImage>& found) {
    const auto reference = image::parse(settings.image, settings.server_url);
    if (!reference) return settings.image;
    if (reference->kind == image::Kind::registry) return reference->registry_name();
    return found && found->digest.empty() && !found->root.empty() ? found->root : reference->path;
}

bool policy_allows(const site::Site& site, const std::string& image) {
    const std::vector<std::string>& patterns = site.policy.images;
    return image.empty() || patterns.empty() ||
           std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return site::matches(image, pattern); });
}

void plan_policy(Planning& planning) {
    const std::string declared = vm_size_name(planning);
    const std::string vm_size =
        planning.site.vm_sizes.contains(declared) ? declared : std::string();
    const std::string image =
        planning.plan.container
            ? image_name(*planning.spec.container_settings, planning.inputs.image)
            : std::string();
    check_limits(planning, vm_size);
    check_account(planning, {}, planning.site.policy.accounts);
    const auto& sizes = planning.site.policy.vm_sizes;
    if (const auto size = sizes.find(vm_size); size != sizes.end())
        check_account(planning, vm_size, size->second.accounts);
    check_image(planning, image);
    planning.plan.declaration = fmt::format("vm_size={}{}{}", declared, image_word, image);
}

}  // namespace batchai::plan

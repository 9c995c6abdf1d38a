// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/binds.hpp"

#include <algorithm>

#include "plan/paths.hpp"

namespace batchai::node {

namespace {

// These belong to the image: a job directory mounted there would hide the image's programs.
constexpr std::string_view kept_from_image[] = {"/usr",   "/bin", "/sbin", "/lib", "/lib32",
                                                "/lib64", "/etc", "/opt",  "/dev", "/proc",
                                                "/sys",   "/var", "/boot", "/run"};

bool is_image_place(std::string_view path) {
    if (path.empty() || path == "/") return true;
    return std::any_of(std::begin(kept_from_image), std::end(kept_from_image),
                       [&](std::string_view place) { return plan::is_within(path, place); });
}

constexpr const char* site_hint =
    "container_binds of site.lua names it; an entry for nodes that need not have it ends with "
    ":optional";

// Whether `inner` can be seen in `outer` already.
bool shows(const Bind& outer, const Bind& inner) {
    return outer.source == outer.target && inner.source == inner.target &&
           outer.read_only == inner.read_only;
}

class Collected {
  public:
    void add(const plan::HostBind& bind) {
        binds_.push_back({bind.source, bind.target, bind.read_only, bind.optional, site_hint});
    }
    void add(const std::string& path, bool optional = true) {
        if (!path.starts_with('/')) return;
        const std::string clean = plan::normalized(path);
        if (clean == "/" || plan::has_parent_component(clean)) return;
        binds_.push_back({clean, clean, false, optional, {}});
    }
    void add_of_user(const std::string& path) {
        if (!is_image_place(path)) add(path);
    }
    std::vector<Bind> outer_first() && {
        std::stable_sort(binds_.begin(), binds_.end(), [](const Bind& left, const Bind& right) {
            return left.target.size() < right.target.size();
        });
        std::vector<Bind> kept;
        for (Bind& bind : binds_) {
            // The nearest is what is seen there; the longer names come later.
            const auto outer = std::find_if(kept.rbegin(), kept.rend(), [&](const Bind& candidate) {
                return plan::is_within(bind.target, candidate.target);
            });
            if (outer == kept.rend() || !shows(*outer, bind)) kept.push_back(std::move(bind));
        }
        return kept;
    }

  private:
    std::vector<Bind> binds_;
};

}  // namespace

std::vector<Bind> plan_binds(const plan::Plan& plan, const NodePlaces& places) {
    const plan::Directories& directories = plan.directories;
    Collected collected;
    // Slurm, MPI libraries and users need it; PMIx has its directory for a step's clients there.
    collected.add("/tmp");
    collected.add(directories.node_root, false);
    collected.add(places.spool);
    collected.add_of_user(places.home);
    collected.add(directories.job_directory, false);
    collected.add(directories.shared_job_temp);
    collected.add(directories.stdouterr_host);
    for (const plan::OutputDirectory& output : plan.outputs)
        collected.add(output.path_host);
    collected.add_of_user(places.submit_directory);
    if (plan.container) {
        for (const plan::HostBind& bind : plan.container->binds)
            collected.add(bind);
    }
    return std::move(collected).outer_first();
}

std::optional<Bind> further_bind(const plan::Plan& plan, const NodePlaces& places) {
    if (is_image_place(places.submit_directory)) return std::nullopt;
    const std::string directory = plan::normalized(places.submit_directory);
    std::vector<Bind> binds = plan_binds(plan, places);
    const auto found = std::find_if(binds.begin(), binds.end(), [&](const Bind& bind) {
        return bind.target == directory && bind.source == directory;
    });
    const bool of_every_step = plan_binds(plan, {places.home, places.spool, {}}) == binds;
    if (found == binds.end() || of_every_step) return std::nullopt;
    return std::move(*found);
}

}  // namespace batchai::node

// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/volumes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fmt/format.h>

#include "base/file.hpp"
#include "job/model.hpp"
#include "node/node_name.hpp"
#include "node/node_root.hpp"
#include "node/rootfs/mounts.hpp"
#include "node/volumes/flush.hpp"
#include "node/volumes/rclone.hpp"
#include "node/volumes/unsaved.hpp"
#include "record/job_files.hpp"
#include "record/node_notes.hpp"

namespace batchai::node {

namespace {

constexpr std::chrono::seconds store_deadline{300};
// Half of the plugin's default timeout for a sandbox.
constexpr std::chrono::seconds longest_wait_for_earlier{15};

// Returns the mounts, sorted so that outer mounts come before those inside them.
std::vector<const plan::Mount*> outer_first(const std::vector<plan::Mount>& mounts) {
    const auto depth = [](const plan::Mount* mount) {
        return std::count(mount->target.begin(), mount->target.end(), '/');
    };
    std::vector<const plan::Mount*> ordered;
    ordered.reserve(mounts.size());
    for (const plan::Mount& mount : mounts)
        ordered.push_back(&mount);
    std::stable_sort(ordered.begin(), ordered.end(), [&](const auto* left, const auto* right) {
        return depth(left) < depth(right);
    });
    return ordered;
}

base::Error described(const plan::Mount& mount, const base::Error& cause) {
    base::Error error = cause;
    error.what =
        fmt::format("cannot mount {} \"{}\" at {}: {}{}{}", mount.kind, mount.name, mount.target,
                    cause.where, cause.where.empty() ? "" : ": ", cause.what);
    error.where.clear();
    return error;
}

// Opens the top directory and reads an entry, which makes rclone ask the storage. Returns 0 or an
// errno.
int look_into(const std::string& path) {
    DIR* const directory = opendir(path.c_str());
    if (directory == nullptr) return errno;
    errno = 0;
    const bool read = readdir(directory) != nullptr;
    const int code = read ? 0 : errno;
    closedir(directory);
    return code;
}

// Makes the mounts of one plan. Each stage is done for all mounts before the next one begins.
class Maker {
  public:
    Maker(const plan::Plan& plan, const base::Root& node_root, const std::string& job_id,
          const Trace& trace)
        : plan_(plan), node_root_(node_root), job_id_(job_id), trace_(trace) {}

    base::Result<Steward> make() {
        return make_roots()
            .and_then([&] { return prepare_remotes(); })
            .and_then([&] { return check_directories(); })
            .and_then([&] { return mount_all(); })
            .and_then([&] { return check_remotes(); })
            .map([&] { return std::move(steward_); });
    }

    // Returns the mount that has failed, for the failure note, or null if the failure did not
    // concern a mount.
    [[nodiscard]] const plan::Mount* current() const { return current_; }

  private:
    [[nodiscard]] const std::string& root_of(const plan::Mount& mount) const {
        return mount.scope == plan::MountScope::job ? plan_.directories.job_mount_root
                                                    : plan_.directories.mount_root;
    }

    [[nodiscard]] tl::unexpected<base::Error> failed(const plan::Mount& mount,
                                                     const base::Error& cause) {
        current_ = &mount;
        return tl::unexpected<base::Error>(described(mount, cause));
    }

    base::Result<void> make_roots() {
        for (const std::string& path :
             {plan_.directories.mount_root, plan_.directories.job_mount_root}) {
            TRY(make_job_directory(node_root_, path, job_id_));
        }
        return {};
    }

    // Prepares credentials and caches, and starts the steward before anything is mounted, because
    // its view of the node must not have the mounts.
    base::Result<void> prepare_remotes() {
        if (!has_remote_mounts(plan_)) return {};
        const auto job_temp =
            TRY(make_job_directory(node_root_, plan_.directories.job_temp, job_id_));
        for (std::size_t i = 0; i < plan_.mounts.size(); ++i) {
            const plan::Mount& mount = plan_.mounts[i];
            if (!mount.remote) continue;
            auto environment = rclone_environment(*mount.remote, plan_.directories.plan_directory);
            if (!environment) return failed(mount, environment.error());
            auto slot = CacheSlot::take(job_temp, i);
            if (!slot) return failed(mount, slot.error());
            const auto labelled = label_slot(*slot, mount, plan_.directories.job_directory);
            if (!labelled) return failed(mount, labelled.error());
            auto device = open_fuse_device();
            if (!device) return failed(mount, device.error());
            remotes_.push_back(
                {&mount, std::move(*environment), std::move(*slot), std::move(*device)});
        }
        auto steward = TRY(Steward::start(remotes_, plan_.directories.job_directory, job_id_));
        steward_ = std::move(steward);
        return {};
    }

    // Checks that the directories answer. Opening one on a dead file server would block this
    // process for ever.
    base::Result<void> check_directories() {
        std::vector<std::pair<const plan::Mount*, Apart>> checks;
        const auto begin = Clock::now();
        for (const plan::Mount& mount : plan_.mounts) {
            if (mount.remote) continue;
            checks.emplace_back(&mount, Apart([&mount] {
                const auto source = open_mount_source(mount);
                return source ? 0 : EIO;
            }));
        }
        for (auto& [mount, check] : checks) {
            // Any result counts as an answer. If it was an error, the mount itself fails again with
            // a better message.
            if (check.result_by(begin + std::chrono::seconds(mount->mount_seconds))) continue;
            return failed(
                *mount, {fmt::format("no answer within {} s", mount->mount_seconds), mount->source,
                         "the file system behind it does not answer; the admin can "
                         "remount it",
                         base::ExitCode::failed});
        }
        return {};
    }

    base::Result<void> mount_all() {
        for (const plan::Mount* mount : outer_first(plan_.mounts)) {
            const auto root = make_job_directory(node_root_, root_of(*mount), job_id_);
            if (!root) return failed(*mount, root.error());
            const auto mounted =
                mount->remote ? mount_remote(*mount, *root) : bind_mount(*mount, *root);
            if (!mounted) return failed(*mount, mounted.error());
            if (!mount->remote) note(*mount, mount->source);
        }
        if (remotes_.empty()) return {};
        steward_.serve();
        return {};
    }

    base::Result<void> mount_remote(const plan::Mount& mount, const base::Root& root) {
        const auto remote = std::find_if(remotes_.begin(), remotes_.end(),
                                         [&](const auto& one) { return one.mount == &mount; });
        auto target = TRY(base::make_beneath(root, mount.target));
        auto mounted =
            mount_fuse(remote->device,
                       {.program = "rclone",
                        .source = fmt::format("{}:{}", mount.remote->backend, mount.remote->path),
                        .target = fmt::format("/proc/self/fd/{}", target.get()),
                        .read_only = mount.read_only,
                        .no_execute = mount.no_execute});
        // The steward has its own descriptor. As long as ours is open, the end of rclone does not
        // end the mount.
        remote->device.reset(-1);
        return mounted;
    }

    // Checks that the storage answers and grants access.
    base::Result<void> check_remotes() {
        std::vector<Apart> checks;
        const auto begin = Clock::now();
        for (const RemoteMount& remote : remotes_) {
            const std::string path = root_of(*remote.mount) + "/" + remote.mount->target;
            checks.emplace_back([&path] { return look_into(path); });
        }
        for (std::size_t i = 0; i < remotes_.size(); ++i) {
            const plan::Mount& mount = *remotes_[i].mount;
            const auto code =
                checks[i].result_by(begin + std::chrono::seconds(mount.mount_seconds));
            if (code != 0) return failed(mount, why(remotes_[i], code));
            note(mount, mount.remote->backend + ":" + mount.remote->path);
        }
        return {};
    }

    [[nodiscard]] static base::Error why(const RemoteMount& remote, std::optional<int> code) {
        const std::string said =
            complaint_of(base::read_file(remote.slot.log(), rclone_log_limit).value_or(""));
        const std::string seen =
            code ? std::string(std::strerror(*code))
                 : fmt::format("no answer within {} s", remote.mount->mount_seconds);
        std::string advice = advice_on(said.empty() ? seen : said);
        if (advice.empty() && !code)
            advice = "the server does not answer this node; check its name and the network";
        return {said.empty() ? seen : fmt::format("{}: {}", seen, said),
                {},
                std::move(advice),
                base::ExitCode::failed};
    }

    void note(const plan::Mount& mount, const std::string& source) const {
        trace_.line(fmt::format("mounted {} \"{}\" ({}) at {}/{}{}", mount.kind, mount.name, source,
                                root_of(mount), mount.target,
                                mount.read_only ? ", read-only" : ""));
    }

    const plan::Plan& plan_;
    const base::Root& node_root_;
    const std::string& job_id_;
    const Trace& trace_;
    std::vector<RemoteMount> remotes_;
    Steward steward_;
    const plan::Mount* current_ = nullptr;
};

}  // namespace

bool has_remote_mounts(const plan::Plan& plan) {
    return std::any_of(plan.mounts.begin(), plan.mounts.end(),
                       [](const plan::Mount& mount) { return mount.remote.has_value(); });
}

base::Result<Volumes> Volumes::mount(const plan::Plan& plan, const base::Root& node_root,
                                     const std::string& job_id, const Trace& trace) {
    Maker maker(plan, node_root, job_id, trace);
    auto steward = maker.make();
    if (!steward) {
        if (const plan::Mount* const mount = maker.current())
            record::write_failure_note(record::JobFiles(plan.directories.job_directory),
                                       {.code = std::string(job::mount_error(mount->kind)),
                                        .text = steward.error().text(),
                                        .node = node_name()});
        return tl::unexpected<base::Error>(steward.error());
    }
    Volumes volumes;
    volumes.steward_ = std::move(*steward);
    return volumes;
}

void wait_for_earlier_steps(const plan::Plan& plan, const std::string& slurm_job_id,
                            const Trace& trace) {
    if (!has_remote_mounts(plan)) return;
    const record::JobFiles files(plan.directories.job_directory);
    const auto is_storing = [&] {
        const auto notes = record::storage_notes(files, slurm_job_id);
        return std::any_of(notes.begin(), notes.end(), [](const record::StorageNote& note) {
            return note.node == node_name() && note.until;
        });
    };
    const auto end = Clock::now() + longest_wait_for_earlier;
    while (is_storing()) {
        if (Clock::now() >= end) {
            trace.line(
                "an earlier step is still storing its files; this step may not see all of them");
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

base::Result<void> store_on_volume(const plan::Plan& plan, const std::string& source,
                                   const std::string& job_path) {
    const auto place = plan.place_of(job_path);
    if (place.mount == nullptr || !place.mount->remote)
        return base::fail("is not on a remote volume of the job", job_path);
    const auto environment =
        TRY(rclone_environment(*place.mount->remote, plan.directories.plan_directory));
    return copy_to_volume(environment, *place.mount->remote, source, place.rest, {},
                          store_deadline);
}

}  // namespace batchai::node

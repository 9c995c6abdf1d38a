// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/ensure.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/import.hpp"
#include "image/lease.hpp"

namespace batchai::image {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_attempts{250};

// Checks a root that is a file or directory of the user's own, which is never imported.
base::Result<Ensured> look_for_root(const FrozenImage& frozen) {
    if (access(frozen.root.c_str(), R_OK) == 0) return Ensured::was_there;
    return base::fail(fmt::format("cannot be read here: {}", std::strerror(errno)), frozen.root,
                      "the image must be on a file system that every node sees",
                      base::ExitCode::not_found);
}

base::Result<void> make_import_directory(const std::string& directory, int owner) {
    TRY(make_cache_directory(directory, owner));
    const std::string path = directory_of_imports(directory);
    if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST)
        return check_cache_directory(path, owner);
    return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)), path,
                      errno == EACCES || errno == EROFS
                          ? "images that are gone from the shared directory need the job to be "
                            "submitted again"
                          : "");
}

// Returns the lease, or nothing if another process has imported the image in the meantime.
base::Result<std::optional<Lease>> get_lease(const FrozenImage& frozen, const std::string& lock,
                                             const EnsureOptions& options) {
    LeaseSeeker seeker(lock);
    const Clock::time_point end = Clock::now() + options.deadline;
    while (true) {
        auto lease = TRY(seeker.attempt());
        if (TRY(is_there(frozen.root, frozen.root_owner))) return std::nullopt;
        if (lease) return lease;
        TRY(check_interrupted(options.watch));
        const base::Holder& holder = seeker.holder();
        const std::string importer =
            holder.host.empty() ? "another process"
                                : fmt::format("{} (process {})", holder.host, holder.process);
        if (Clock::now() > end)
            return base::fail(fmt::format("{} did not finish its import within {} s", importer,
                                          options.deadline.count()),
                              frozen.image, fmt::format("remove {}", lock),
                              base::ExitCode::timed_out);
        if (options.show) options.show({frozen.image, Stage::waiting, 0, 0, importer});
        if (options.watch.tick) options.watch.tick();
        std::this_thread::sleep_for(between_attempts);
    }
}

// Imports the image, and renews the lease meanwhile.
base::Result<void> import_with(Lease& lease, const FrozenImage& frozen, const Access& access,
                               const EnsureOptions& options) {
    const Watch watch{[&] {
                          lease.renew();
                          if (options.watch.tick) options.watch.tick();
                      },
                      options.watch.interrupted};
    return import_image({.image = frozen.image,
                         .digest = frozen.digest,
                         .source = frozen.source,
                         .root = frozen.root,
                         .for_all = frozen.root_owner != nobody_else,
                         .token = lease.token(),
                         .access = access},
                        watch, options.show);
}

}  // namespace

base::Result<Ensured> ensure(const FrozenImage& frozen, const Access& access,
                             const EnsureOptions& options) {
    if (frozen.digest.empty()) return look_for_root(frozen);
    if (TRY(is_there(frozen.root, frozen.root_owner))) {
        note_use(frozen.root);
        return Ensured::was_there;
    }
    const std::string directory = fs::path(frozen.root).parent_path().string();
    TRY(make_import_directory(directory, frozen.root_owner));
    const std::string stem = entry_stem(frozen.digest);
    const std::string imports = directory_of_imports(directory);
    while (true) {
        auto lease = TRY(get_lease(frozen, fmt::format("{}/{}.lock", imports, stem), options));
        if (!lease) {
            note_use(frozen.root);
            return Ensured::imported_by_another;
        }
        collect_leftovers(imports, stem, lease->token());
        auto imported = import_with(*lease, frozen, access, options);
        if (imported) break;
        // Whoever takes the lease of a process that was stopped for a while removes what that has
        // made so far, and makes the image itself.
        TRY(check_interrupted(options.watch));
        if (lease->is_held()) return tl::unexpected(std::move(imported).error());
    }
    shrink(directory, options.limit, frozen.digest, options.in_use);
    return Ensured::imported;
}

}  // namespace batchai::image

// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/cache.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include "base/json.hpp"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;

constexpr int most_slots = 64;
constexpr std::size_t note_limit = 16UL << 20U;

struct State {
    bool written = false;
    bool whole = false;
};

// rclone's note on one file. One that cannot be read is being written, and so is its file.
State read_state(const fs::path& note) {
    const auto text = base::read_file(note, note_limit);
    if (!text) return {};
    const auto note_value = base::parse_json(*text, note.string());
    if (!note_value) return {};
    const auto size_in = [](const base::Value& object, std::int64_t otherwise) {
        const std::int64_t* const size = object["Size"].integer();
        return size == nullptr ? otherwise : *size;
    };
    const bool* const dirty = (*note_value)["Dirty"].boolean();
    std::int64_t there = 0;
    if (const auto* const ranges = (*note_value)["Rs"].array()) {
        for (const base::Value& range : *ranges)
            there += size_in(range, 0);
    }
    return {.written = dirty != nullptr && !*dirty, .whole = there == size_in(*note_value, -1)};
}

void add_unwritten(const fs::path& notes, const fs::path& data, std::vector<UnwrittenFile>& files) {
    std::error_code error;
    for (auto entry = fs::recursive_directory_iterator(notes, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        std::error_code ignored;
        if (!entry->is_regular_file(ignored) || entry->is_symlink(ignored)) continue;
        const State state = read_state(entry->path());
        if (state.written) continue;
        const fs::path below = entry->path().lexically_relative(notes);
        const fs::path local = data / below;
        // A note whose file is gone is of a file that was deleted meanwhile.
        if (!fs::exists(local, ignored)) continue;
        files.push_back({below.string(), local.string(), entry->path().string(), state.whole});
    }
}

}  // namespace

base::Result<CacheSlot> CacheSlot::take(const Root& job_temp, std::size_t mount) {
    for (int number = 0; number < most_slots; ++number) {
        const std::string relative = fmt::format(".volumes/{}/{}", mount, number);
        const auto directory = make_beneath(job_temp, relative);
        if (!directory) return tl::unexpected<base::Error>(directory.error());
        const std::string path = job_temp.path + "/" + relative;
        // Inherited by rclone, hence no O_CLOEXEC.
        base::FileDescriptor lock(
            openat(directory->get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
        if (!lock.valid())
            return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)),
                              path + "/lock");
        if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return CacheSlot(path, std::move(lock));
        if (errno != EWOULDBLOCK)
            return base::fail(fmt::format("cannot be locked: {}", std::strerror(errno)),
                              path + "/lock");
    }
    return base::fail(fmt::format("{} steps use it at the same time already", most_slots),
                      job_temp.path + "/.volumes");
}

std::vector<UnwrittenFile> unwritten_files(const std::string& cache,
                                           const std::string& remote_path) {
    std::vector<UnwrittenFile> files;
    std::error_code error;
    // rclone appends a hash of the remote's options, "volume{x1y2z}": another one for each rclone,
    // since a password is never encoded the same way twice.
    for (const auto& top : fs::directory_iterator(fs::path(cache) / "vfsMeta", error)) {
        const std::string name = top.path().filename().string();
        if (name.starts_with("volume"))
            add_unwritten(top.path() / remote_path, fs::path(cache) / "vfs" / name / remote_path,
                          files);
    }
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.local < b.local; });
    return files;
}

}  // namespace batchai::node

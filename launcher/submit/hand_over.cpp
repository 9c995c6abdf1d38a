// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/hand_over.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/stat.h>

#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"

namespace batchai::submit {

namespace {

namespace fs = std::filesystem;

constexpr auto longest_wait = std::chrono::hours(24 * 28);
// `batchai run` may be killed before it records an end, so one that is missing proves nothing for
// ever.
constexpr auto longest_run = std::chrono::hours(24 * 365);
constexpr auto kept_after_end = std::chrono::hours(24 * 7);

fs::path root_of(const store::Store& store) {
    return store.home() / "hand-over";
}

struct Life {
    bool needed = true;
    base::Time last_sign;
};

base::Time time_of_change(const fs::path& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return base::now();
    return base::Time(std::chrono::seconds(status.st_mtim.tv_sec));
}

Life life_of(const fs::path& directory) {
    const record::JobFiles files(directory);
    Life life{.needed = false, .last_sign = time_of_change(directory)};
    bool has_run = false;
    for (const record::JobFiles& of_task : files.with_array_tasks()) {
        const auto attempt = record::latest_attempt(of_task);
        // A record that cannot be read does not prove that the job has ended.
        if (!attempt) return Life{.needed = true, .last_sign = base::now()};
        if (!*attempt) continue;
        has_run = true;
        const bool open = !(*attempt)->end || (*attempt)->runs_again();
        const bool runs = open && base::now() - (*attempt)->start <= longest_run;
        life.needed = life.needed || runs;
        life.last_sign = std::max(life.last_sign, (*attempt)->end.value_or((*attempt)->start));
    }
    if (!has_run) life.needed = base::now() - life.last_sign <= longest_wait;
    return life;
}

base::Result<std::vector<fs::path>> all_directories(const store::Store& store) {
    std::error_code code;
    const auto entries = base::entries_of(root_of(store), code);
    if (code && code != std::errc::no_such_file_or_directory)
        return base::system_error("list", root_of(store), code.value());
    std::vector<fs::path> out;
    for (const auto& entry : entries) {
        if (entry.is_directory(code) && !entry.is_symlink(code)) out.push_back(entry.path());
    }
    return out;
}

}  // namespace

fs::path handed_over_directory(const store::Store& store, const std::string& uuid) {
    return root_of(store) / uuid;
}

base::Result<std::vector<fs::path>> needed_hand_overs(const store::Store& store) {
    std::vector<fs::path> out;
    for (fs::path& directory : TRY(all_directories(store))) {
        if (life_of(directory).needed) out.push_back(std::move(directory));
    }
    return out;
}

void prune_handed_over(const store::Store& store) {
    for (const fs::path& directory : all_directories(store).value_or(std::vector<fs::path>())) {
        const Life life = life_of(directory);
        if (!life.needed && base::now() - life.last_sign > kept_after_end)
            static_cast<void>(base::remove_tree(directory));
    }
}

}  // namespace batchai::submit

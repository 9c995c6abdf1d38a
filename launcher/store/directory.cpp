// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/directory.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/lock.hpp"

namespace batchai::store {

namespace {

namespace fs = std::filesystem;

// Best effort: a later sweep removes what cannot be removed now.
void remove_everything(const fs::path& path) {
    static_cast<void>(base::remove_tree(path));
}

void sweep(const fs::path& directory) {
    std::error_code code;
    for (const auto& entry : base::entries_of(directory, code)) {
        struct stat status {};
        if (lstat(entry.path().c_str(), &status) != 0) continue;
        const auto changed = std::chrono::system_clock::from_time_t(status.st_ctime);
        if (std::chrono::system_clock::now() - changed > std::chrono::hours(24))
            remove_everything(entry.path());
    }
}

}  // namespace

base::Result<fs::path> new_directory(const fs::path& home) {
    fs::path path = home / ".new" / base::random_uuid();
    auto made = base::make_directories(path, 0700);
    if (made) return path;
    base::Error error = std::move(made).error();
    if (error.hint.empty())
        error.hint = fmt::format(
            "the records are in {}; BATCHAI_HOME names another directory, "
            "which every node must see",
            home.string());
    return tl::unexpected(std::move(error));
}

base::Result<void> publish_directory(const fs::path& from, const fs::path& to) {
    auto parent = base::make_directories(to.parent_path(), 0700);
    if (!parent) {
        remove_everything(from);
        return parent;
    }
    if (base::rename_file(from, to)) return {};
    const int code = errno;
    remove_everything(from);
    if (code == ENOTEMPTY || code == EEXIST || code == ENOTDIR)
        return base::fail("already exists", to.string(), {}, base::ExitCode::refused);
    return base::system_error("create", to, code);
}

base::Result<void> discard(const fs::path& home, const fs::path& path) {
    const fs::path trash = home / ".trash";
    TRY(base::make_directories(trash, 0700));
    const fs::path target = trash / base::random_uuid();
    if (!base::rename_file(path, target)) return base::system_error("remove", path);
    remove_everything(target);
    sweep(trash);
    sweep(home / ".new");
    return {};
}

base::Result<std::vector<std::string>> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    std::error_code code;
    for (const auto& entry : base::entries_of(directory, code))
        names.push_back(entry.path().filename().string());
    if (code == std::errc::no_such_file_or_directory) return names;
    if (code) return base::system_error("list", directory, code.value());
    std::sort(names.begin(), names.end());
    return names;
}

base::Result<base::FileDescriptor> lock_updates(const fs::path& home) {
    constexpr std::chrono::seconds longest{10};
    const std::string path = (home / ".lock").string();
    base::FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) return base::system_error("open", path);
    if (base::lock_by(file.get(), std::chrono::steady_clock::now() + longest)) return file;
    if (errno == ENOSYS || errno == ENOLCK || errno == EOPNOTSUPP) return file;
    if (errno != EWOULDBLOCK) return base::system_error("lock", path);
    return base::fail("another process has been changing records for ten seconds", path,
                      "see which with fuser(1), and try again", base::ExitCode::refused);
}

}  // namespace batchai::store

// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/cache.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"

namespace batchai::image {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view algorithm = "sha256:";
constexpr std::string_view ending = ".squashfs";
constexpr std::size_t name_limit = 64UL << 10U;

bool is_private(const struct stat& status) {
    return (status.st_uid == geteuid() || status.st_uid == 0) && (status.st_mode & 022U) == 0;
}

std::string complaint(const struct stat& status) {
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return fmt::format("belongs to user {}, not to you or root", status.st_uid);
    return fmt::format("can be written to by others (mode {:04o})", status.st_mode & 07777U);
}

tl::unexpected<base::Error> system_error(std::string_view action, const std::string& path) {
    return base::fail(fmt::format("cannot {}: {}", action, std::strerror(errno)), path);
}

// The digest of an entry's file name, or nothing for other files.
std::string digest_of_name(const std::string& name) {
    if (name.size() != 64 + ending.size() || !name.ends_with(ending)) return {};
    const std::string digits = name.substr(0, 64);
    if (digits.find_first_not_of("0123456789abcdef") != std::string::npos) return {};
    return std::string(algorithm) + digits;
}

std::string image_named_in(const std::string& path) {
    const auto text = base::read_file(path, name_limit);
    if (!text) return {};
    const auto description = base::parse_json(*text, path);
    if (!description) return {};
    const std::string* const image = (*description)["image"].string();
    return image == nullptr ? std::string() : *image;
}

std::string description_path(const std::string& entry) {
    return entry.substr(0, entry.size() - ending.size()) + ".json";
}

base::Time time_of(const timespec& time) {
    return base::Time(std::chrono::duration_cast<base::Time::duration>(
        std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)));
}

}  // namespace

Places places_of(const site::Site& site, const std::string& batchai_home,
                 const std::string& user_name) {
    Places places;
    places.own = site.image_directory.empty() ? batchai_home + "/images" : site.image_directory;
    if (const auto at = places.own.find("%u"); at != std::string::npos)
        places.own.replace(at, 2, user_name);
    places.shared = site.shared_image_directory;
    places.limit = std::int64_t{site.image_cache_limit} << 30U;
    return places;
}

std::string entry_path(const std::string& directory, const std::string& digest) {
    const std::size_t colon = digest.find(':');
    return fmt::format("{}/{}{}", directory, digest.substr(colon + 1), ending);
}

base::Result<void> check_cache_directory(const std::string& directory) {
    struct stat status {};
    if (stat(directory.c_str(), &status) != 0) {
        auto error = system_error("be used for images", directory);
        error.value().exit_code =
            errno == ENOENT ? base::ExitCode::not_found : base::ExitCode::failed;
        return error;
    }
    if (!S_ISDIR(status.st_mode)) return base::fail("is not a directory", directory);
    if (is_private(status)) return {};
    return base::fail(fmt::format("is not trusted for images: it {}", complaint(status)), directory,
                      status.st_uid == geteuid()
                          ? fmt::format("chmod go-w {}", directory)
                          : "image_directory in site.lua names the directory; it must be yours",
                      base::ExitCode::refused);
}

base::Result<void> make_cache_directory(const std::string& directory) {
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
        const int code = errno;
        auto error = system_error("be made", directory);
        if (code == ENOENT)
            error.value().hint = "the directory above it must be there; the admin makes it";
        return error;
    }
    return check_cache_directory(directory);
}

base::Result<bool> is_there(const std::string& path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return false;
        return system_error("be looked at", path);
    }
    if (!S_ISREG(status.st_mode) || !is_private(status)) {
        const bool file = S_ISREG(status.st_mode);
        return base::fail(fmt::format("is not trusted as an image: it {}",
                                      file ? complaint(status) : "is not a file"),
                          path, "remove it, and it is imported again", base::ExitCode::refused);
    }
    if (auto trusted = check_cache_directory(fs::path(path).parent_path().string()); !trusted)
        return tl::unexpected<base::Error>(trusted.error());
    return true;
}

void note_use(const std::string& path) {
    utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

base::Result<std::string> choose_root(const Places& places, const std::string& digest) {
    if (!places.shared.empty()) {
        std::string shared = entry_path(places.shared, digest);
        const auto there = is_there(shared);
        if (!there) return tl::unexpected<base::Error>(there.error());
        if (*there) return shared;
    }
    return entry_path(places.own, digest);
}

base::Result<std::vector<Entry>> entries(const std::string& directory, bool shared) {
    std::vector<Entry> out;
    std::error_code error;
    if (!fs::exists(directory, error)) return out;
    if (auto trusted = check_cache_directory(directory); !trusted)
        return tl::unexpected<base::Error>(trusted.error());
    fs::directory_iterator at(directory, error);
    if (error) return base::fail("cannot be listed: " + error.message(), directory);
    for (; at != fs::directory_iterator(); at.increment(error)) {
        if (error) return base::fail("cannot be listed: " + error.message(), directory);
        Entry entry;
        entry.path = at->path().string();
        entry.digest = digest_of_name(at->path().filename().string());
        struct stat status {};
        if (entry.digest.empty() || lstat(entry.path.c_str(), &status) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        entry.image = image_named_in(description_path(entry.path));
        entry.bytes = status.st_size;
        entry.last_used = time_of(status.st_mtim);
        entry.shared = shared;
        out.push_back(std::move(entry));
    }
    std::sort(out.begin(), out.end(), [](const Entry& left, const Entry& right) {
        if (left.last_used != right.last_used) return left.last_used > right.last_used;
        return left.digest < right.digest;
    });
    return out;
}

base::Result<std::vector<Entry>> all_entries(const Places& places) {
    auto out = entries(places.own, false);
    if (!out || places.shared.empty()) return out;
    auto shared = entries(places.shared, true);
    if (!shared) return shared;
    out->insert(out->end(), shared->begin(), shared->end());
    return out;
}

base::Result<void> remove_entry(const Entry& entry) {
    if (unlink(entry.path.c_str()) != 0 && errno != ENOENT)
        return system_error("be removed", entry.path);
    unlink(description_path(entry.path).c_str());
    return {};
}

std::vector<Entry> surplus(std::vector<Entry> entries, std::int64_t limit,
                           const std::set<std::string>& keep) {
    std::int64_t total = 0;
    for (const Entry& entry : entries)
        total += entry.bytes;
    std::sort(entries.begin(), entries.end(), [](const Entry& left, const Entry& right) {
        return left.last_used < right.last_used;
    });
    std::vector<Entry> out;
    for (Entry& entry : entries) {
        if (total <= limit) break;
        if (keep.contains(entry.digest)) continue;
        total -= entry.bytes;
        out.push_back(std::move(entry));
    }
    return out;
}

void shrink(const std::string& directory, std::int64_t limit, const std::string& digest,
            const InUse& in_use) {
    if (limit <= 0) return;
    auto all = entries(directory, false);
    if (!all || surplus(*all, limit, {digest}).empty()) return;
    std::set<std::string> keep = in_use ? in_use() : std::set<std::string>();
    keep.insert(digest);
    for (const Entry& entry : surplus(std::move(*all), limit, keep)) {
        if (!remove_entry(entry)) return;
    }
}

}  // namespace batchai::image

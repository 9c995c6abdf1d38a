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

constexpr std::string_view of_registry = "sha256:";
constexpr std::string_view of_file = "local:";
constexpr std::string_view stem_of_file = "local-";
constexpr std::string_view ending = ".squashfs";
constexpr std::size_t name_limit = 64UL << 10U;

bool is_of_trusted(const struct stat& status, int owner) {
    return status.st_uid == geteuid() || status.st_uid == 0 ||
           (owner != nobody_else && status.st_uid == static_cast<uid_t>(owner));
}

bool is_trusted(const struct stat& status, int owner) {
    return is_of_trusted(status, owner) && (status.st_mode & 022U) == 0;
}

std::string complaint(const struct stat& status, int owner) {
    if (!is_of_trusted(status, owner))
        return owner == nobody_else || owner == 0
                   ? fmt::format("belongs to user {}, not to you or root", status.st_uid)
                   : fmt::format("belongs to user {}, not to user {}, whom site.lua names, or root",
                                 status.st_uid, owner);
    return fmt::format("can be written to by others (mode {:04o})", status.st_mode & 07777U);
}

tl::unexpected<base::Error> system_error(std::string_view action, const std::string& path) {
    return base::fail(fmt::format("cannot {}: {}", action, std::strerror(errno)), path);
}

// Returns the digest in an entry's file name, or an empty string for any other file.
std::string digest_of_name(const std::string& name) {
    if (!name.ends_with(ending)) return {};
    return digest_of_stem(std::string_view(name).substr(0, name.size() - ending.size()));
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
    places.shared_owner = site.shared_image_owner;
    places.limit = std::int64_t{site.image_cache_limit} << 30U;
    return places;
}

std::string entry_stem(const std::string& digest) {
    const std::string digits = digest.substr(digest.find(':') + 1);
    return digest.starts_with(of_file) ? std::string(stem_of_file) + digits : digits;
}

std::string digest_of_stem(std::string_view stem) {
    const bool file = stem.starts_with(stem_of_file);
    if (file) stem.remove_prefix(stem_of_file.size());
    if (stem.size() != 64 || stem.find_first_not_of("0123456789abcdef") != std::string::npos)
        return {};
    return std::string(file ? of_file : of_registry).append(stem);
}

std::string entry_path(const std::string& directory, const std::string& digest) {
    return fmt::format("{}/{}{}", directory, entry_stem(digest), ending);
}

std::string local_digest(std::string_view digest) {
    return std::string(of_file).append(digest.substr(digest.find(':') + 1));
}

bool same_digits(std::string_view left, std::string_view right) {
    return left.substr(left.find(':') + 1) == right.substr(right.find(':') + 1);
}

base::Result<void> check_cache_directory(const std::string& directory, int owner) {
    struct stat status {};
    if (stat(directory.c_str(), &status) != 0) {
        auto error = system_error("be used for images", directory);
        error.value().exit_code =
            errno == ENOENT ? base::ExitCode::not_found : base::ExitCode::failed;
        return error;
    }
    if (!S_ISDIR(status.st_mode)) return base::fail("is not a directory", directory);
    if (is_trusted(status, owner)) return {};
    return base::fail(
        fmt::format("is not trusted for images: it {}", complaint(status, owner)), directory,
        status.st_uid == geteuid() ? fmt::format("chmod go-w {}", directory)
        : owner == nobody_else ? "image_directory in site.lua names the directory; it must be yours"
                               : "set shared_image_owner in site.lua to the owner of the directory",
        base::ExitCode::refused);
}

base::Result<void> make_cache_directory(const std::string& directory, int owner) {
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
        const int code = errno;
        auto error = system_error("be made", directory);
        if (code == ENOENT)
            error.value().hint = "its parent directory does not exist; ask the admin to create it";
        return error;
    }
    return check_cache_directory(directory, owner);
}

base::Result<bool> is_there(const std::string& path, int owner) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return false;
        return system_error("be looked at", path);
    }
    if (!S_ISREG(status.st_mode) || !is_trusted(status, owner)) {
        const bool file = S_ISREG(status.st_mode);
        return base::fail(fmt::format("is not trusted as an image: it {}",
                                      file ? complaint(status, owner) : "is not a file"),
                          path, "remove it; it will be imported again", base::ExitCode::refused);
    }
    TRY(check_cache_directory(fs::path(path).parent_path().string(), owner));
    return true;
}

void note_use(const std::string& path) {
    utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

base::Result<Root> choose_root(const Places& places, const std::string& digest) {
    if (!places.shared.empty()) {
        std::string shared = entry_path(places.shared, digest);
        if (TRY(is_there(shared, places.shared_owner)))
            return Root{.path = std::move(shared), .owner = places.shared_owner};
    }
    return Root{.path = entry_path(places.own, digest)};
}

base::Result<std::vector<Entry>> entries(const std::string& directory, bool shared, int owner) {
    std::vector<Entry> out;
    std::error_code error;
    if (!fs::exists(directory, error)) return out;
    TRY(check_cache_directory(directory, owner));
    const auto files = base::entries_of(directory, error);
    if (error) return base::fail("cannot be listed: " + error.message(), directory);
    for (const auto& file : files) {
        Entry entry;
        entry.path = file.path().string();
        entry.digest = digest_of_name(file.path().filename().string());
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
    std::vector<Entry> out = TRY(entries(places.own, false));
    if (places.shared.empty()) return out;
    const std::vector<Entry> shared = TRY(entries(places.shared, true, places.shared_owner));
    out.insert(out.end(), shared.begin(), shared.end());
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
    auto keep = in_use ? in_use() : std::set<std::string>();
    if (!keep) return;
    keep->insert(digest);
    for (const Entry& entry : surplus(std::move(*all), limit, *keep)) {
        if (!remove_entry(entry)) return;
    }
}

}  // namespace batchai::image

// SPDX-License-Identifier: GPL-2.0-or-later
#include "snapshot/listing.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace batchai::snapshot {

namespace {

// Far more than any snapshot may have, so that the largest parts are known when it is refused.
constexpr std::size_t most_entries = 1'000'000;
constexpr int deepest = 64;
constexpr int deepest_repository = 8;
constexpr std::size_t parts_named = 5;

// Returns the relative path of an entry of the directory at a relative path.
std::string below(const std::string& at, const std::string& name) {
    return at.empty() ? name : fmt::format("{}/{}", at, name);
}

std::string last_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

std::string link_target(int link) {
    std::array<char, 4097> target{};
    const ssize_t length = readlinkat(link, "", target.data(), target.size() - 1);
    return length < 0 ? std::string()
                      : std::string(target.data(), static_cast<std::size_t>(length));
}

// Collects the entries. Every path is opened below the directory and no link is followed, so that
// somebody who can write to a part of it cannot have another file copied.
class Lister {
  public:
    Lister(const plan::Snapshot& snapshot, const std::vector<std::string>& private_files)
        : snapshot_(snapshot),
          private_files_(private_files),
          private_identities_(identities_of(private_files)) {}

    base::Result<Listing> run() {
        root_ = base::FileDescriptor(
            open(snapshot_.source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!root_.valid()) return base::system_error("read the directory", snapshot_.source);
        auto repository = repository_of(snapshot_.source, private_files_);
        if (!repository) {
            listing_.why_no_repository.push_back(repository.error().text());
        } else if (*repository) {
            listing_.repository = std::move(**repository);
            const auto listed = TRY(files_of(snapshot_.source));
            TRY(add_listed(listed, "", 0));
            return finished();
        }
        TRY(add_tree("", 0));
        return finished();
    }

  private:
    // Adds what git has listed in the repository at a relative path.
    base::Result<void> add_listed(const std::vector<std::string>& paths, const std::string& at,
                                  int depth) {
        for (std::string path : paths) {
            while (path.ends_with('/'))
                path.pop_back();
            path = below(at, path);
            if (!base::is_plain_relative(path) || is_excluded_below(path, at)) continue;
            TRY(add(path, depth, true));
        }
        return {};
    }

    // Adds the repository at a relative path in another one. git may refuse to be asked about it:
    // somebody else can have made it.
    base::Result<void> add_nested(const std::string& at, int depth) {
        const auto listed = files_of(snapshot_.source + '/' + at);
        if (listed) return add_listed(*listed, at, depth);
        listing_.why_no_repository.push_back(listed.error().text());
        listing_.entries.push_back({.path = at, .kind = Kind::directory});
        return add_tree(at, depth);
    }

    // Adds everything in the directory at a relative path.
    base::Result<void> add_tree(const std::string& at, int depth) {
        if (depth > deepest)
            return base::fail(fmt::format("{} is nested more than {} directories deep",
                                          base::printable(at), deepest),
                              snapshot_.source, "name it in \"snapshot.exclude\"");
        const base::FileDescriptor directory =
            at.empty() ? base::FileDescriptor(fcntl(root_.get(), F_DUPFD_CLOEXEC, 0))
                       : base::open_beneath(root_.get(), at, O_RDONLY | O_DIRECTORY);
        if (!directory.valid()) return base::system_error("read", snapshot_.source + '/' + at);
        auto names = TRY(base::all_names_in(directory.get(), snapshot_.source + '/' + at));
        std::sort(names.begin(), names.end());
        for (const std::string& name : names) {
            if (name == "." || name == "..") continue;
            TRY(add(below(at, name), depth, false));
        }
        return {};
    }

    base::Result<void> add(const std::string& path, int depth, bool by_git) {
        if (last_name(path) == ".git") return {};
        const base::FileDescriptor found =
            base::open_beneath(root_.get(), path, O_PATH | O_NOFOLLOW);
        // It was removed, or a directory of the path has become a link.
        if (!found.valid() && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR)) return {};
        struct stat status {};
        if (!found.valid() || fstat(found.get(), &status) != 0)
            return base::system_error("examine", snapshot_.source + '/' + path);
        const bool is_directory = S_ISDIR(status.st_mode);
        if (is_excluded(path, is_directory) || is_private(path, status)) return {};
        if (listing_.entries.size() >= most_entries)
            return base::fail(fmt::format("has more than {} files", most_entries), snapshot_.source,
                              "name what is not needed in \"snapshot.exclude\"");
        if (is_directory) {
            // With git, this is a nested repository, which git lists like a file.
            if (by_git && depth < deepest_repository) return add_nested(path, depth + 1);
            listing_.entries.push_back({.path = path, .kind = Kind::directory});
            return add_tree(path, depth + 1);
        }
        if (S_ISLNK(status.st_mode)) return add_link(path, link_target(found.get()));
        if (!S_ISREG(status.st_mode)) {
            listing_.left_out.push_back(path);
            return {};
        }
        listing_.entries.push_back({.path = path, .kind = Kind::file, .bytes = status.st_size});
        listing_.bytes += status.st_size;
        ++listing_.files;
        return {};
    }

    base::Result<void> add_link(const std::string& path, std::string target) {
        if (!target.starts_with('/') && !stays_inside(path, target))
            return base::fail(
                fmt::format("{} is a link to {}, which leads out of the directory, so that it "
                            "would lead elsewhere in the copy",
                            base::printable(path), base::printable(target)),
                snapshot_.source, "make it absolute, or name it in \"snapshot.exclude\"");
        if (target.starts_with('/')) listing_.not_frozen.push_back(path);
        listing_.entries.push_back({.path = path, .kind = Kind::link, .target = std::move(target)});
        ++listing_.files;
        return {};
    }

    bool is_excluded(const std::string& path, bool is_directory) const {
        return std::any_of(
            snapshot_.exclude.begin(), snapshot_.exclude.end(),
            [&](const std::string& pattern) { return matches(pattern, path, is_directory); });
    }

    // git lists files without their directories, each of which may be excluded.
    bool is_excluded_below(const std::string& path, const std::string& from) const {
        std::size_t slash = from.empty() ? 0 : from.size() + 1;
        while ((slash = path.find('/', slash)) != std::string::npos) {
            if (is_excluded(path.substr(0, slash), true)) return true;
            ++slash;
        }
        return false;
    }

    // The same file may have several paths, as in a home directory that is reached over a link.
    bool is_private(const std::string& path, const struct stat& status) const {
        return private_identities_.contains({status.st_dev, status.st_ino}) ||
               std::find(private_files_.begin(), private_files_.end(),
                         snapshot_.source + '/' + path) != private_files_.end();
    }

    base::Result<Listing> finished() {
        const bool too_large = listing_.bytes > snapshot_.max_bytes;
        if (!too_large && listing_.files <= snapshot_.max_files) return std::move(listing_);
        return base::fail(
            too_large ? fmt::format("the snapshot would have {}, more than {}; the largest parts "
                                    "are {}",
                                    base::size_text(listing_.bytes),
                                    base::size_text(snapshot_.max_bytes), largest_parts())
                      : fmt::format("the snapshot would have {} files, more than {}; the largest "
                                    "parts are {}",
                                    listing_.files, snapshot_.max_files, largest_parts()),
            snapshot_.source,
            too_large ? "name them in \"snapshot.exclude\", or raise \"snapshot.maxSize\""
                      : "name them in \"snapshot.exclude\", or raise \"snapshot.maxFiles\"",
            base::ExitCode::bad_job_file);
    }

    std::string largest_parts() const {
        struct Part {
            std::string name;
            std::int64_t bytes = 0;
            std::int64_t files = 0;
        };
        std::map<std::string, Part> by_name;
        for (const Entry& entry : listing_.entries) {
            if (entry.kind == Kind::directory) continue;
            const std::size_t slash = entry.path.find('/');
            const std::string name =
                slash == std::string::npos ? entry.path : entry.path.substr(0, slash + 1);
            Part& part = by_name[name];
            part.name = name;
            part.bytes += entry.bytes;
            ++part.files;
        }
        const bool by_bytes = listing_.bytes > snapshot_.max_bytes;
        std::vector<Part> parts;
        parts.reserve(by_name.size());
        for (auto& [name, part] : by_name)
            parts.push_back(std::move(part));
        std::stable_sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) {
            return by_bytes ? a.bytes > b.bytes : a.files > b.files;
        });
        parts.resize(std::min(parts.size(), parts_named));
        std::vector<std::string> texts;
        texts.reserve(parts.size());
        for (const Part& part : parts)
            texts.push_back(fmt::format(
                "{} ({})", base::printable(part.name),
                by_bytes ? base::size_text(part.bytes) : fmt::format("{} files", part.files)));
        return fmt::format("{}", fmt::join(texts, ", "));
    }

    const plan::Snapshot& snapshot_;
    const std::vector<std::string>& private_files_;
    std::set<FileIdentity> private_identities_;
    base::FileDescriptor root_;
    Listing listing_;
};

}  // namespace

base::Result<Listing> list(const plan::Snapshot& snapshot,
                           const std::vector<std::string>& private_files) {
    return Lister(snapshot, private_files).run();
}

bool matches(std::string_view pattern, const std::string& path, bool is_directory) {
    if (pattern.ends_with('/')) {
        if (!is_directory) return false;
        pattern.remove_suffix(1);
    }
    const bool whole = pattern.find('/') != std::string_view::npos;
    if (pattern.starts_with('/')) pattern.remove_prefix(1);
    const std::string text(pattern);
    return fnmatch(text.c_str(), whole ? path.c_str() : last_name(path).c_str(), 0) == 0;
}

bool stays_inside(std::string_view path, std::string_view target) {
    // The number of directories between the link and the root.
    auto depth = std::count(path.begin(), path.end(), '/');
    for (const std::string_view component : base::split(target, '/')) {
        if (component.empty() || component == ".") continue;
        depth += component == ".." ? -1 : 1;
        if (depth < 0) return false;
    }
    return true;
}

}  // namespace batchai::snapshot

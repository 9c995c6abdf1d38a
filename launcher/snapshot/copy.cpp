// SPDX-License-Identifier: GPL-2.0-or-later
#include "snapshot/copy.hpp"

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/utf8.hpp"

namespace batchai::snapshot {

namespace {

class Copier {
  public:
    Copier(const plan::Snapshot& snapshot, base::FileDescriptor from, base::Root to,
           const std::function<base::Result<void>()>& tick)
        : snapshot_(snapshot), from_(std::move(from)), to_(std::move(to)), tick_(tick) {}

    base::Result<void> add(const Entry& entry) {
        const std::size_t slash = entry.path.rfind('/');
        const std::string parent =
            slash == std::string::npos ? std::string() : entry.path.substr(0, slash);
        const std::string name = entry.path.substr(slash == std::string::npos ? 0 : slash + 1);
        if (entry.kind == Kind::directory) return enter(entry.path);
        TRY(enter(parent));
        if (entry.kind == Kind::file) return copy_file(entry, name);
        if (base::make_symbolic_link(entry.target, place_.get(), name)) return {};
        return base::system_error("make the link", to_.path + '/' + entry.path);
    }

  private:
    // Opens a directory of the copy, and makes it if it is missing.
    base::Result<void> enter(const std::string& relative) {
        if (place_.valid() && place_path_ == relative) return {};
        place_ = relative.empty()
                     ? base::FileDescriptor(fcntl(to_.directory.get(), F_DUPFD_CLOEXEC, 0))
                     : TRY(base::make_beneath(to_, relative));
        place_path_ = relative;
        return {};
    }

    base::Result<void> copy_file(const Entry& entry, const std::string& name) {
        const std::string original = snapshot_.source + '/' + entry.path;
        // A pipe that has taken the file's place must not hold us up.
        const base::FileDescriptor source =
            base::open_beneath(from_.get(), entry.path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
        struct stat status {};
        if (!source.valid() || fstat(source.get(), &status) != 0)
            return base::system_error("read", original);
        if (!S_ISREG(status.st_mode))
            return base::fail("is no longer a file", original, "submit the job again");
        const std::string copied = to_.path + '/' + entry.path;
        base::FileDescriptor target(openat(place_.get(), name.c_str(),
                                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                           0600));
        if (!target.valid()) return base::system_error("create", copied);
        while (true) {
            if (tick_) TRY(tick_());
            const ssize_t count = read(source.get(), chunk_.data(), chunk_.size());
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) return base::system_error("read", original);
            if (count == 0) break;
            bytes_ += count;
            if (bytes_ > snapshot_.max_bytes)
                return base::fail("has grown above \"snapshot.maxSize\" while it was copied",
                                  original, "submit the job again when nothing writes there");
            if (!base::write_all(target.get(), {chunk_.data(), static_cast<std::size_t>(count)}))
                return base::system_error("write", copied);
        }
        const std::array<timespec, 2> times{status.st_atim, status.st_mtim};
        if (futimens(target.get(), times.data()) != 0 ||
            fchmod(target.get(), status.st_mode & 0777U) != 0 || !target.close())
            return base::system_error("write", copied);
        return {};
    }

    const plan::Snapshot& snapshot_;
    base::FileDescriptor from_;
    base::Root to_;
    const std::function<base::Result<void>()>& tick_;
    base::FileDescriptor place_;  // the directory of the copy that the last entry was put into
    std::string place_path_;
    std::int64_t bytes_ = 0;
    std::vector<char> chunk_ = std::vector<char>(1UL << 20U);
};

}  // namespace

record::Snapshot described(const plan::Snapshot& snapshot, const Listing& listing) {
    record::Snapshot out{.source = snapshot.source,
                         .directory = snapshot.directory,
                         .files = listing.files,
                         .bytes = listing.bytes};
    if (!listing.repository) return out;
    const Repository& repository = *listing.repository;
    out.commit = repository.commit;
    out.branch = base::printable(repository.branch);
    out.remote = base::printable(repository.remote);
    out.dirty = repository.dirty();
    return out;
}

base::Result<void> copy(const plan::Snapshot& snapshot, const Listing& listing,
                        const record::JobFiles& files,
                        const std::function<base::Result<void>()>& tick) {
    TRY(base::make_own_directory(snapshot.directory));
    base::FileDescriptor from(open(snapshot.source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!from.valid()) return base::system_error("read the directory", snapshot.source);
    Copier copier(snapshot, std::move(from), TRY(base::open_private_directory(snapshot.directory)),
                  tick);
    for (const Entry& entry : listing.entries) {
        if (tick) TRY(tick());
        TRY(copier.add(entry));
    }
    if (listing.repository && listing.repository->patch && !listing.repository->patch->empty())
        TRY(base::write_atomically(files.snapshot_patch(), *listing.repository->patch, 0600));
    return record::write_snapshot(files, described(snapshot, listing));
}

}  // namespace batchai::snapshot

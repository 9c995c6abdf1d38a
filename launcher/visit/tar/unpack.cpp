// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/tar/unpack.hpp"

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"

namespace batchai::visit {

namespace {

constexpr const char* in_the_way =
    "a symbolic link is in the way, which is not followed; remove it or copy to another place";

tl::unexpected<base::Error> cannot_write(const std::string& path) {
    const bool is_link = errno == ELOOP;
    return base::fail(
        is_link ? "cannot be written" : fmt::format("cannot be written: {}", std::strerror(errno)),
        path, is_link ? in_the_way : "");
}

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string name_in_parent(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

mode_t usual_mode(unsigned int mode) {
    const mode_t mask = umask(0);
    umask(mask);
    return mode & ~mask & 0777U;
}

// A file that has another name until it is complete, and none if it never is.
class NewFile {
  public:
    NewFile(const base::Root& root, const std::string& path)
        : shown_(root.path + '/' + path),
          name_(name_in_parent(path)),
          directory_(
              base::open_beneath(root.directory.get(), parent_of(path), O_PATH | O_DIRECTORY)) {
        if (directory_.valid())
            file_ =
                base::open_beneath(directory_.get(), temporary_, O_WRONLY | O_CREAT | O_EXCL, 0600);
    }
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    ~NewFile() {
        if (made_ && !complete_) unlinkat(directory_.get(), temporary_.c_str(), 0);
    }

    [[nodiscard]] base::Result<void> check() {
        made_ = file_.valid();
        return made_ ? base::Result<void>() : cannot_write(shown_);
    }
    [[nodiscard]] base::Result<void> write(const TarReader::Contents& contents) const {
        if (lseek(file_.get(), static_cast<off_t>(contents.at), SEEK_SET) < 0 ||
            !base::write_all(file_.get(), contents.bytes))
            return cannot_write(shown_);
        return {};
    }
    // A directory of this name stays, and a link is replaced, not followed.
    [[nodiscard]] base::Result<void> complete(const TarEntry& entry) {
        if (ftruncate(file_.get(), static_cast<off_t>(entry.size)) != 0 ||
            fchmod(file_.get(), usual_mode(entry.mode)) != 0 || !file_.close() ||
            !base::rename_at(directory_.get(), temporary_, directory_.get(), name_))
            return cannot_write(shown_);
        complete_ = true;
        return {};
    }

  private:
    std::string shown_;
    std::string name_;
    std::string temporary_ = ".batchai-" + base::random_uuid();
    base::FileDescriptor directory_;
    base::FileDescriptor file_;
    bool made_ = false;
    bool complete_ = false;
};

class Unpacker {
  public:
    Unpacker(const UnpackPlace& place, const TarReader::Source& source,
             const std::function<void(const std::string&)>& remark,
             const std::function<void(std::uint64_t)>& told)
        : place_(place), reader_(source), remark_(remark), told_(told) {}

    base::Result<Unpacked> run() {
        while (const auto entry = TRY(reader_.next())) {
            const auto path = path_of(entry->name);
            if (!path)
                pass_over(entry->name, "its name leads elsewhere");
            else if (entry->kind == TarKind::link)
                pass_over(entry->name, "it is a link");
            else if (entry->kind == TarKind::other)
                pass_over(entry->name, "it is neither a file nor a directory");
            else if (entry->kind == TarKind::file)
                TRY(write_file(*entry, *path));
            else
                TRY(make_directory(*entry, *path));
        }
        out_.complete = !reader_.is_cut_off();
        return out_;
    }

  private:
    void pass_over(const std::string& name, std::string_view why) {
        out_.passed_over = true;
        remark_(fmt::format("{} was not copied: {}", name, why));
    }

    // Returns the path of an entry below the directory; nothing if it may not be there.
    [[nodiscard]] std::optional<std::string> path_of(const std::string& name) const {
        std::string_view rest = name;
        while (rest.starts_with("./"))
            rest.remove_prefix(2);
        if (rest == place_.top) return place_.name;
        if (!rest.starts_with(place_.top + '/')) return std::nullopt;
        rest.remove_prefix(place_.top.size() + 1);
        if (!base::is_plain_relative(rest)) return std::nullopt;
        return fmt::format("{}/{}", place_.name, rest);
    }

    base::Result<void> make_directory(const TarEntry& entry, const std::string& path) const {
        const int root = place_.directory.directory.get();
        // Others of the user's programs must be able to write to it, or nothing could be copied
        // there.
        const auto parent = base::open_beneath(root, parent_of(path), O_PATH | O_DIRECTORY);
        const std::string shown = place_.directory.path + '/' + path;
        if (!parent.valid()) return cannot_write(shown);
        const mode_t mode = usual_mode(entry.mode | 0700U);
        if (mkdirat(parent.get(), name_in_parent(path).c_str(), mode) != 0 && errno != EEXIST)
            return cannot_write(shown);
        if (!base::open_beneath(root, path, O_PATH | O_DIRECTORY).valid())
            return cannot_write(shown);
        return {};
    }

    base::Result<void> write_file(const TarEntry& entry, const std::string& path) {
        NewFile file(place_.directory, path);
        TRY(file.check());
        while (const auto contents = TRY(reader_.contents())) {
            TRY(file.write(*contents));
            bytes_ += contents->bytes.size();
            if (told_) told_(bytes_);
        }
        if (reader_.is_cut_off()) return {};
        ++out_.files;
        return file.complete(entry);
    }

    const UnpackPlace& place_;
    TarReader reader_;
    const std::function<void(const std::string&)>& remark_;
    const std::function<void(std::uint64_t)>& told_;
    std::uint64_t bytes_ = 0;
    Unpacked out_;
};

}  // namespace

base::Result<Unpacked> unpack(const UnpackPlace& place, const TarReader::Source& source,
                              const std::function<void(const std::string&)>& remark,
                              const std::function<void(std::uint64_t)>& told) {
    auto out = Unpacker(place, source, remark, told).run();
    // What follows the end pads the last record of the stream.
    while (out && out->complete && !source().empty()) {
    }
    return out;
}

}  // namespace batchai::visit

// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/tar/unpack.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace

Unpacker::Unpacker(base::Root into, std::string top, std::string name, Remark remark)
    : into_(std::move(into)),
      top_(std::move(top)),
      name_(std::move(name)),
      remark_(std::move(remark)) {}

Unpacker::~Unpacker() {
    if (open_) unlinkat(open_->directory.get(), open_->temporary.c_str(), 0);
}

void Unpacker::pass_over(const std::string& name, std::string_view why) {
    passed_over_ = true;
    remark_(fmt::format("{} was not copied: {}", name, why));
}

std::optional<std::string> Unpacker::path_of(const std::string& name) const {
    std::string_view rest = name;
    while (rest.starts_with("./"))
        rest.remove_prefix(2);
    if (rest == top_) return name_;
    if (!rest.starts_with(top_ + '/')) return std::nullopt;
    rest.remove_prefix(top_.size() + 1);
    if (!base::is_plain_relative(rest) || rest.find('\0') != std::string_view::npos)
        return std::nullopt;
    return fmt::format("{}/{}", name_, rest);
}

base::Result<void> Unpacker::feed(std::string_view bytes) {
    // What follows the end pads the last record of the stream.
    if (ended_) return {};
    reader_.feed(bytes);
    while (true) {
        switch (TRY(reader_.next())) {
            case TarReader::Found::nothing:
                return {};
            case TarReader::Found::entry:
                TRY(begin(reader_.entry()));
                break;
            case TarReader::Found::contents:
                TRY(write(reader_.contents()));
                break;
            case TarReader::Found::end:
                ended_ = true;
                return {};
        }
    }
}

base::Result<void> Unpacker::finish() {
    if (ended_) return {};
    return base::fail("the copy ended before it was complete", into_.path + '/' + name_);
}

base::Result<void> Unpacker::begin(const TarEntry& entry) {
    const auto path = path_of(entry.name);
    if (!path) {
        pass_over(entry.name, "its name leads elsewhere");
        return {};
    }
    if (entry.kind == TarKind::link) {
        pass_over(entry.name, "it is a link");
        return {};
    }
    if (entry.kind == TarKind::other) {
        pass_over(entry.name, "it is neither a file nor a directory");
        return {};
    }
    if (entry.kind == TarKind::file) return begin_file(entry, *path);
    // Others of the user's programs must be able to write to it, or nothing could be copied there.
    const auto parent =
        base::open_beneath(into_.directory.get(), parent_of(*path), O_PATH | O_DIRECTORY);
    const std::string shown = into_.path + '/' + *path;
    if (!parent.valid()) return cannot_write(shown);
    const mode_t mode = usual_mode(entry.mode | 0700U);
    if (mkdirat(parent.get(), name_in_parent(*path).c_str(), mode) != 0 && errno != EEXIST)
        return cannot_write(shown);
    if (!base::open_beneath(into_.directory.get(), *path, O_PATH | O_DIRECTORY).valid())
        return cannot_write(shown);
    return {};
}

base::Result<void> Unpacker::begin_file(const TarEntry& entry, const std::string& path) {
    OpenFile file{.directory = base::open_beneath(into_.directory.get(), parent_of(path),
                                                  O_PATH | O_DIRECTORY),
                  .file = {},
                  .temporary = ".batchai-" + base::random_uuid(),
                  .name = name_in_parent(path),
                  .path = into_.path + '/' + path,
                  .left = entry.size,
                  .mode = entry.mode};
    if (!file.directory.valid()) return cannot_write(file.path);
    file.file =
        base::open_beneath(file.directory.get(), file.temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file.file.valid()) return cannot_write(file.path);
    open_ = std::move(file);
    return open_->left == 0 ? complete() : base::Result<void>();
}

base::Result<void> Unpacker::write(std::string_view bytes) {
    if (!open_) return {};
    if (!base::write_all(open_->file.get(), bytes)) return cannot_write(open_->path);
    bytes_ += bytes.size();
    open_->left -= bytes.size();
    return open_->left == 0 ? complete() : base::Result<void>();
}

base::Result<void> Unpacker::complete() {
    // A directory of this name stays, and a link is replaced, not followed.
    if (fchmod(open_->file.get(), usual_mode(open_->mode)) != 0 || !open_->file.close() ||
        renameat(open_->directory.get(), open_->temporary.c_str(), open_->directory.get(),
                 open_->name.c_str()) != 0)
        return cannot_write(open_->path);
    open_.reset();
    ++files_;
    return {};
}

}  // namespace batchai::visit

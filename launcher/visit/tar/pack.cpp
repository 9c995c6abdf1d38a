// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/tar/pack.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <system_error>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::visit {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t chunk_bytes = 256UL << 10U;

using Write = std::function<bool(std::string_view)>;

la_ssize_t pass_on(archive* /*writer*/, void* write, const void* bytes,
                   std::size_t length) noexcept {
    const std::string_view text(static_cast<const char*>(bytes), length);
    return (*static_cast<const Write*>(write))(text) ? static_cast<la_ssize_t>(length) : -1;
}

// libarchive writes the end of a stream when it is freed, unless it has been told that the stream
// has failed.
void fail_and_free(archive* writer) {
    archive_write_fail(writer);
    archive_write_free(writer);
}

class Packer {
  public:
    Packer(Write write, const std::function<void(const std::string&)>& remark)
        : write_(std::move(write)), remark_(remark), chunk_(chunk_bytes, '\0') {
        archive* const writer = archive_.get();
        // Every tar(1) reads this form.
        archive_write_set_format_gnutar(writer);
        archive_write_set_bytes_per_block(writer, 0);
        archive_write_set_bytes_in_last_block(writer, 1);
        archive_write_open(writer, &write_, nullptr, pass_on, nullptr);
    }

    base::Result<void> add(const fs::path& path, const std::string& name) {
        // A FIFO must not stop us here.
        const base::FileDescriptor file(
            open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        struct stat status {};
        if (!file.valid() || fstat(file.get(), &status) != 0)
            return pass_over(path, std::strerror(errno));
        if (S_ISREG(status.st_mode)) return add_file(file, status, path, name);
        if (S_ISDIR(status.st_mode)) return add_directory(status, path, name);
        return pass_over(path, "it is neither a file nor a directory");
    }
    base::Result<void> add_empty_directory(const std::string& name) {
        return add_header(name, AE_IFDIR, 0, 0700);
    }
    base::Result<void> finish() { return taken(archive_write_close(archive_.get()) == ARCHIVE_OK); }
    [[nodiscard]] const Packed& packed() const { return packed_; }

  private:
    static base::Result<void> taken(bool all) {
        if (all) return {};
        return base::fail("the node does not take any more");
    }

    // The owner is not in it.
    base::Result<void> add_header(const std::string& name, unsigned int kind, std::int64_t size,
                                  mode_t mode) {
        const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(
            archive_entry_new(), archive_entry_free);
        archive_entry_set_pathname(entry.get(), name.c_str());
        archive_entry_set_filetype(entry.get(), kind);
        archive_entry_set_size(entry.get(), size);
        archive_entry_set_perm(entry.get(), mode & 0777U);
        // As cp gives it. Without one, tar takes 1970, and what clears /tmp of old files acts on
        // it.
        archive_entry_set_mtime(entry.get(), now_, 0);
        return taken(archive_write_header(archive_.get(), entry.get()) >= ARCHIVE_WARN);
    }

    base::Result<void> pass_over(const fs::path& path, std::string_view why) {
        packed_.passed_over = true;
        remark_(fmt::format("{} was not copied: {}", path.string(), why));
        return {};
    }

    // The file may change meanwhile. The stream gets as many bytes as its header says. What is said
    // of the length of a file in /proc or /sys is not true, so that one that fits into a chunk is
    // as long as what can be read of it.
    base::Result<void> add_file(const base::FileDescriptor& file, const struct stat& status,
                                const fs::path& path, const std::string& name) {
        std::size_t count = 0;
        if (!read_chunk(file, chunk_.size(), count)) return pass_over(path, std::strerror(errno));
        const bool is_whole = count < chunk_.size();
        const auto size =
            is_whole ? std::uint64_t{count} : static_cast<std::uint64_t>(status.st_size);
        if (size == 0 && count > 0) return pass_over(path, "its length is not known");
        // It has grown since.
        count = static_cast<std::size_t>(std::min<std::uint64_t>(count, size));
        TRY(add_header(name, AE_IFREG, static_cast<std::int64_t>(size), status.st_mode));
        std::uint64_t left = size;
        while (count > 0) {
            TRY(taken(archive_write_data(archive_.get(), chunk_.data(), count) ==
                      static_cast<la_ssize_t>(count)));
            left -= count;
            const auto most =
                static_cast<std::size_t>(std::min<std::uint64_t>(left, chunk_.size()));
            if (!read_chunk(file, most, count)) break;
        }
        if (left > 0)
            return base::fail("has become shorter, or cannot be read, while it was copied",
                              path.string());
        packed_.bytes += size;
        ++packed_.files;
        return taken(archive_write_finish_entry(archive_.get()) == ARCHIVE_OK);
    }

    // Reads that many bytes, or less at the end of the file. Returns false with an errno if it
    // cannot be read.
    bool read_chunk(const base::FileDescriptor& file, std::size_t most, std::size_t& count) {
        count = 0;
        while (count < most) {
            const ssize_t some = read(file.get(), chunk_.data() + count, most - count);
            if (some < 0 && errno == EINTR) continue;
            if (some < 0) return false;
            if (some == 0) break;
            count += static_cast<std::size_t>(some);
        }
        return true;
    }

    base::Result<void> add_directory(const struct stat& status, const fs::path& path,
                                     const std::string& name) {
        TRY(add_header(name, AE_IFDIR, 0, status.st_mode));
        std::error_code code;
        auto entries = base::entries_of(path, code);
        if (code) return pass_over(path, code.message());
        std::sort(entries.begin(), entries.end());
        for (const auto& child : entries) {
            std::error_code ignored;
            if (child.is_symlink(ignored) && child.is_directory(ignored)) {
                TRY(pass_over(child.path(), "it is a link to a directory"));
                continue;
            }
            TRY(add(child.path(), name + '/' + child.path().filename().string()));
        }
        return {};
    }

    Write write_;
    std::unique_ptr<archive, decltype(&fail_and_free)> archive_{archive_write_new(), fail_and_free};
    const std::function<void(const std::string&)>& remark_;
    std::string chunk_;
    const std::time_t now_ = std::time(nullptr);
    Packed packed_;
};

}  // namespace

base::Result<Packed> pack(const fs::path& source, const PackNames& names,
                          const std::function<bool(std::string_view)>& write,
                          const std::function<void(const std::string&)>& remark) {
    Packer packer(write, remark);
    TRY(packer.add(source, names.top));
    if (!names.last.empty()) TRY(packer.add_empty_directory(names.last));
    TRY(packer.finish());
    return packer.packed();
}

}  // namespace batchai::visit

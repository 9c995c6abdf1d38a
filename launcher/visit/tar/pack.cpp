// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/tar/pack.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "visit/tar/writer.hpp"

namespace batchai::visit {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t chunk_bytes = 256UL << 10U;

class Packer {
  public:
    Packer(const std::function<bool(std::string_view)>& write,
           const std::function<void(const std::string&)>& remark)
        : write_(write), remark_(remark), chunk_(chunk_bytes, '\0') {}

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
        return send(
            tar_header({.name = name, .kind = TarKind::directory, .size = 0, .mode = 0700}));
    }
    base::Result<void> finish() { return send(tar_end()); }
    [[nodiscard]] const Packed& packed() const { return packed_; }

  private:
    base::Result<void> send(std::string_view bytes) {
        if (write_(bytes)) return {};
        return base::fail("the node does not take any more");
    }

    base::Result<void> pass_over(const fs::path& path, std::string_view why) {
        packed_.passed_over = true;
        remark_(fmt::format("{} was not copied: {}", path.string(), why));
        return {};
    }

    // The file may change meanwhile. The stream gets as many bytes as its header says.
    base::Result<void> add_file(const base::FileDescriptor& file, const struct stat& status,
                                const fs::path& path, const std::string& name) {
        const auto size = static_cast<std::uint64_t>(status.st_size);
        TRY(send(tar_header(
            {.name = name, .kind = TarKind::file, .size = size, .mode = status.st_mode & 0777U})));
        std::uint64_t left = size;
        while (left > 0) {
            const auto most =
                static_cast<std::size_t>(std::min<std::uint64_t>(left, chunk_.size()));
            const ssize_t count = read(file.get(), chunk_.data(), most);
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) break;
            TRY(send(std::string_view(chunk_).substr(0, static_cast<std::size_t>(count))));
            left -= static_cast<std::uint64_t>(count);
        }
        if (left > 0)
            return base::fail("has become shorter, or cannot be read, while it was copied",
                              path.string());
        packed_.bytes += size;
        ++packed_.files;
        return send(tar_padding(size));
    }

    base::Result<void> add_directory(const struct stat& status, const fs::path& path,
                                     const std::string& name) {
        TRY(send(tar_header({.name = name,
                             .kind = TarKind::directory,
                             .size = 0,
                             .mode = status.st_mode & 0777U})));
        std::error_code code;
        std::vector<fs::directory_entry> entries;
        fs::directory_iterator entry(path, code);
        for (; !code && entry != fs::directory_iterator(); entry.increment(code))
            entries.push_back(*entry);
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

    const std::function<bool(std::string_view)>& write_;
    const std::function<void(const std::string&)>& remark_;
    std::string chunk_;
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

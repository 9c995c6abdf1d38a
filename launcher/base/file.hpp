// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"

namespace batchai::base {

// Returns the error "cannot <action>: …" of a system call on the path. It is not_found if nothing
// is there.
[[nodiscard]] tl::unexpected<Error> system_error(std::string_view action,
                                                 const std::filesystem::path& path,
                                                 int code = errno);

// Owns a file descriptor and closes it when destroyed. Move-only.
class FileDescriptor {
  public:
    FileDescriptor() = default;
    explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
    FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.release()) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept {
        reset(other.release());
        return *this;
    }
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;
    ~FileDescriptor() { reset(-1); }

    [[nodiscard]] int get() const { return descriptor_; }
    [[nodiscard]] bool valid() const { return descriptor_ >= 0; }
    int release() { return std::exchange(descriptor_, -1); }
    // Returns false, with errno, if what was written may be lost. A network file system often
    // learns only now that the disk or the user's quota is full.
    [[nodiscard]] bool close();
    void reset(int descriptor);

  private:
    int descriptor_ = -1;
};

// Returns the end of a regular file from byte `from` on, at most its last `most` bytes. Returns ""
// for any other file, and for a descriptor that is not valid.
[[nodiscard]] std::string end_of_file(const FileDescriptor& file, std::size_t from,
                                      std::size_t most);

// Reads the whole file. Refuses a file above `limit` bytes, a directory, a FIFO and a device.
// `where` of the error is the path.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path,
                                            std::size_t limit = 64UL << 20U);

// Reads a file that must belong to the caller and be closed to all others, such as one with a
// secret. A symbolic link as the last part of the path is refused. No message quotes the text.
[[nodiscard]] Result<std::string> read_private_file(const std::filesystem::path& path,
                                                    std::size_t limit);

// Writes all bytes, however many calls that takes. Returns false, with errno, if that fails.
[[nodiscard]] bool write_all(int descriptor, std::string_view bytes);
// Does the same, and returns how many bytes were written. If these are not all, errno says why.
[[nodiscard]] std::size_t write_until_error(int descriptor, std::string_view bytes);

// Writes a temporary file in the same directory, syncs it, and renames it, so that a reader sees
// the old bytes or the new ones and never half a file. Works on NFS.
[[nodiscard]] Result<void> write_atomically(const std::filesystem::path& path,
                                            std::string_view bytes, mode_t mode = 0644);

// Works as write_atomically does, but fails with ExitCode::refused if the path exists. It uses
// link(2) on a complete temporary file, so that no reader sees the file half-made.
[[nodiscard]] Result<void> create_exclusively(const std::filesystem::path& path,
                                              std::string_view bytes, mode_t mode = 0644);

// Renames as renameat(2) does, and returns whether the file has its new name; if it has not, errno
// says why. A client of NFS whose server has renamed the file, but whose answer was lost, asks
// again and is told ENOENT. So the file is looked for at its new name before that is believed.
[[nodiscard]] bool rename_at(int from_directory, const std::string& from, int to_directory,
                             const std::string& to);
[[nodiscard]] bool rename_file(const std::filesystem::path& from, const std::filesystem::path& to);

// Makes a symbolic link as symlinkat(2) does, and returns whether it is there, or errno. A client
// of NFS that asks again is told EEXIST.
[[nodiscard]] bool make_symbolic_link(const std::string& target, int directory,
                                      const std::string& name);

// Works as mkdir -p does. Every directory that it makes gets `mode`.
[[nodiscard]] Result<void> make_directories(const std::filesystem::path& path, mode_t mode = 0755);

// Returns the entries of a directory, in no order. If not all can be read, `code` says why, and the
// result has those that came before. It throws nothing, as a loop over
// std::filesystem::directory_iterator does where a file server fails in the middle.
[[nodiscard]] std::vector<std::filesystem::directory_entry> entries_of(
    const std::filesystem::path& directory, std::error_code& code);

// Removes `name` in the open directory `parent` with all that is in it. Links are removed and not
// followed. A directory on another file system is an error and stays. After an error it removes
// what it can, and returns the first error. It is not an error if `name` is not there. Calls `tick`
// now and then.
[[nodiscard]] Result<void> remove_tree(int parent, const std::string& name,
                                       const std::function<void()>& tick = {});
// Removes the tree at a path. Nobody else may be able to replace a directory of that path.
[[nodiscard]] Result<void> remove_tree(const std::filesystem::path& path,
                                       const std::function<void()>& tick = {});

// Refuses a directory that somebody else could have put where ours was: one that is a symbolic link
// itself (links on the way to it are the admin's business), belongs to another user, or can be
// written to by others. `where` of the error is the path.
[[nodiscard]] Result<void> check_own_directory(const std::string& path);

}  // namespace batchai::base

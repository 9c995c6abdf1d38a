// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/output/value.hpp"
#include "store/store.hpp"

namespace batchai::cli {

// The host path of the job's directory `id`: "stdouterr", or an output directory's id. The
// directory may not be there yet. An unknown id, and one on node-local storage, is an error.
[[nodiscard]] base::Result<std::filesystem::path> output_directory(const store::Store& store,
                                                                   const store::JobKey& key,
                                                                   const std::string& id);

// Opens `relative` below `root` (openat2: it never leaves it, not by ".." and not by a link).
// `flags` as open(2). not_found when there is no such file yet.
[[nodiscard]] base::Result<base::FileDescriptor> open_below(const std::filesystem::path& root,
                                                            const std::string& relative, int flags);

// One level: [{contentLength, downloadUrl, fileType, lastModified, name}], sorted by name.
[[nodiscard]] base::Result<Value> list_directory(const std::filesystem::path& root,
                                                 const std::string& relative);

// "file:///a/b%20c"
[[nodiscard]] std::string file_url(std::string_view path);

// Reads a file that another machine may be writing, without missing a byte. It is opened anew for
// each look, because NFS promises fresh contents only to a new open. When the name has come to mean
// another file, or the file has become shorter (a requeued job starts over), reading begins at the
// start again. One thread.
class FileFollower {
  public:
    // Gets the bytes in order; false: stop (the reader went away).
    using Sink = std::function<bool(std::string_view)>;

    FileFollower(std::filesystem::path root, std::string relative)
        : root_(std::move(root)), relative_(std::move(relative)) {}

    enum class Look { absent, nothing_new, read, restarted, stopped };

    // Gives the sink all that is there now beyond what it got before.
    [[nodiscard]] base::Result<Look> look(const Sink& sink);

  private:
    [[nodiscard]] base::Result<bool> drain(int descriptor, const Sink& sink);

    std::filesystem::path root_;
    std::string relative_;
    base::FileDescriptor file_;  // of the last look
    dev_t device_ = 0;
    ino_t inode_ = 0;
    off_t offset_ = 0;
};

}  // namespace batchai::cli

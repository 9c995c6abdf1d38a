// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/output/output.hpp"
#include "plan/plan.hpp"
#include "store/store.hpp"

namespace batchai::status {

// Returns the plan with which the job was submitted.
[[nodiscard]] base::Result<plan::Plan> plan_of_job(const store::Store& store,
                                                   const store::JobKey& key);

// Returns the host path of the job's directory `id`, which is "stdouterr" or the id of an output
// directory. The directory may not exist yet. It is an error if the id is unknown or the directory
// is on node-local storage. Each task of an array job has directories of its own.
[[nodiscard]] base::Result<std::filesystem::path> output_directory(const store::Store& store,
                                                                   const store::JobKey& key,
                                                                   const std::string& id,
                                                                   std::optional<int> task = {});

// Opens `relative` below `root` with the flags of open(2). openat2(2) ensures that the path does
// not leave `root`, neither through ".." nor through a link. If there is no such file, the error is
// ExitCode::not_found.
[[nodiscard]] base::Result<base::FileDescriptor> open_below(const std::filesystem::path& root,
                                                            const std::string& relative, int flags);

// Lists one level of a directory as [{contentLength, downloadUrl, fileType, lastModified, name}],
// sorted by name.
[[nodiscard]] base::Result<base::Value> list_directory(const std::filesystem::path& root,
                                                       const std::string& relative);

// Returns the URL of a path: "file:///a/b%20c".
[[nodiscard]] std::string file_url(std::string_view path);

// Reads a file that another machine may be writing, without missing a byte. The file is opened
// again for each look, because NFS guarantees fresh contents only after a new open. If the name
// refers to another file than before, or the file has become shorter (a requeued job starts over),
// reading starts again at the beginning. For use by one thread.
class FileFollower {
  public:
    // Receives the bytes in order. It returns false to stop, for example because the reader has
    // gone away.
    using Sink = std::function<bool(std::string_view)>;

    FileFollower(std::filesystem::path root, std::string relative)
        : root_(std::move(root)), relative_(std::move(relative)) {}

    enum class Look { absent, nothing_new, read, restarted, stopped };

    // Passes to the sink everything that was written since the last look.
    [[nodiscard]] base::Result<Look> look(const Sink& sink);

  private:
    [[nodiscard]] base::Result<bool> drain(int descriptor, const Sink& sink);

    std::filesystem::path root_;
    std::string relative_;
    base::FileDescriptor file_;  // as opened by the last look
    dev_t device_ = 0;
    ino_t inode_ = 0;
    off_t offset_ = 0;
};

}  // namespace batchai::status

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/process.hpp"
#include "cli/output/transfer_progress.hpp"
#include "cli/tree/parser.hpp"
#include "storage/share.hpp"

namespace batchai::cli {

// Copies files between this host and shares, one after the other, and shows how far it is. As long
// as it exists, Ctrl-C, SIGTERM and SIGHUP end a copy without leaving half a file. They have their
// usual effect when it is destroyed, so that the program then ends by the signal.
class Transfer {
  public:
    explicit Transfer(bool no_progress) : progress_(!no_progress) {}

    [[nodiscard]] base::Result<void> upload(const std::string& local, const storage::Share& share,
                                            const std::string& path);
    // `local` is the path of the new file. Its directory must exist.
    [[nodiscard]] base::Result<void> download(const storage::Share& share, const std::string& path,
                                              const std::string& local,
                                              const storage::Range& range = {});

  private:
    [[nodiscard]] storage::Copying copying(const storage::Source& source, const std::string& name);

    base::HeldSignals signals_{SIGINT, SIGTERM, SIGHUP};
    TransferProgress progress_;
};

// Adds --start-range and --end-range.
void add_range_options(Parser leaf, storage::Range& range);

// Returns where a download goes: `destination` itself, or the file of this name in it if it is a
// directory. Without a destination, the file is in the current directory.
[[nodiscard]] std::string download_path(const std::optional<std::string>& destination,
                                        const std::string& name);

}  // namespace batchai::cli

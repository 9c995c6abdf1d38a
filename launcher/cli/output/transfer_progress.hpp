// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace batchai::cli {

// Shows how far a copy is, as one line on standard error that is overwritten. Shows nothing if
// standard error is not a terminal, and with --no-progress and --only-show-errors.
class TransferProgress {
  public:
    explicit TransferProgress(bool wanted);
    TransferProgress(const TransferProgress&) = delete;
    TransferProgress& operator=(const TransferProgress&) = delete;
    ~TransferProgress();

    // Begins a file of this size.
    void begin(const std::string& name, std::int64_t total);
    // `done` bytes of it are copied.
    void show(std::int64_t done);

  private:
    void print(std::int64_t done);

    bool shows_;
    std::string name_;
    std::int64_t total_ = 0;
    std::size_t width_ = 0;  // of the line on the terminal
    std::chrono::steady_clock::time_point last_;
};

// Returns the line: "weights.h5 [########            ]  40.0% of 1.5 GiB".
[[nodiscard]] std::string progress_line(const std::string& name, std::int64_t done,
                                        std::int64_t total);

}  // namespace batchai::cli

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace batchai::image {

enum class Stage { waiting, pulling, unpacking, packing };

// The progress of an import.
struct Progress {
    std::string image;
    Stage stage = Stage::waiting;
    std::int64_t done = 0;   // bytes of layers pulled, or of the packed file
    std::int64_t total = 0;  // 0: not known
    std::string importer;    // the process that we wait for: "h2 (process 1234)"
};

using ShowProgress = std::function<void(const Progress&)>;

// Describes the progress: "pulling debian:12: 12.0 MiB of 48.1 MiB".
[[nodiscard]] std::string to_text(const Progress& progress);

// Shows progress on standard error. On a terminal this is one line that is overwritten. Elsewhere
// it is a line for each stage and one every ten seconds. The destructor ends the line on a
// terminal.
class ProgressPrinter {
  public:
    ProgressPrinter();
    ProgressPrinter(const ProgressPrinter&) = delete;
    ProgressPrinter& operator=(const ProgressPrinter&) = delete;
    ~ProgressPrinter();

    void show(const Progress& progress);

  private:
    bool terminal_;
    std::size_t width_ = 0;  // of the line on the terminal
    bool shown_ = false;
    Stage stage_ = Stage::waiting;
    std::chrono::steady_clock::time_point last_;
};

}  // namespace batchai::image

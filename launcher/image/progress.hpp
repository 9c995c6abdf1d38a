// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace batchai::image {

enum class Stage { waiting, pulling, unpacking, packing };

// How far an import has come.
struct Progress {
    std::string image;
    Stage stage = Stage::waiting;
    std::int64_t done = 0;   // bytes; of layers pulled, of the file packed
    std::int64_t total = 0;  // 0: not known
    std::string importer;    // who imports it while we wait: "h2 (process 1234)"
};

using ShowProgress = std::function<void(const Progress&)>;

// "pulling debian:12: 12.0 MiB of 48.1 MiB".
[[nodiscard]] std::string to_text(const Progress& progress);

// "512 B", "1.5 GiB".
[[nodiscard]] std::string size_text(std::int64_t bytes);

// Shows progress on standard error: on a terminal one line that is written over, else a line for
// each stage and one every ten seconds. Ends its line when it goes.
class ProgressPrinter {
  public:
    ProgressPrinter();
    ProgressPrinter(const ProgressPrinter&) = delete;
    ProgressPrinter& operator=(const ProgressPrinter&) = delete;
    ~ProgressPrinter();

    void show(const Progress& progress);

  private:
    bool terminal_;
    std::size_t width_ = 0;  // of the line that is there
    bool shown_ = false;
    Stage stage_ = Stage::waiting;
    std::chrono::steady_clock::time_point last_;
};

}  // namespace batchai::image

// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/progress.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "base/standard_error.hpp"
#include "base/text.hpp"

namespace batchai::image {

namespace {

constexpr std::chrono::seconds between_lines{10};

std::string_view verb_of(Stage stage) {
    switch (stage) {
        case Stage::waiting:
            return "waiting for";
        case Stage::pulling:
            return "pulling";
        case Stage::unpacking:
            return "unpacking";
        case Stage::packing:
            return "packing";
    }
    return {};
}

}  // namespace

std::string to_text(const Progress& progress) {
    std::string out = fmt::format("{} {}", verb_of(progress.stage), progress.image);
    if (!progress.importer.empty()) out += fmt::format(": {} imports it", progress.importer);
    if (progress.total > 0)
        out += fmt::format(": {} of {}", base::size_text(std::min(progress.done, progress.total)),
                           base::size_text(progress.total));
    else if (progress.done > 0)
        out += fmt::format(": {}", base::size_text(progress.done));
    return out;
}

ProgressPrinter::ProgressPrinter() : terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressPrinter::~ProgressPrinter() {
    if (terminal_ && shown_) base::print_error("\n");
}

void ProgressPrinter::show(const Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const bool new_stage = !shown_ || progress.stage != stage_;
    if (!terminal_ && !new_stage && now - last_ < between_lines) return;
    const std::string line = "batchai: " + to_text(progress);
    if (terminal_) {
        if (shown_ && new_stage) {
            base::print_error("\n");
            width_ = 0;
        }
        base::print_error("\r{:<{}}", line, width_);
        width_ = line.size();
    } else {
        base::print_error("{}\n", line);
    }
    std::fflush(stderr);
    shown_ = true;
    stage_ = progress.stage;
    last_ = now;
}

}  // namespace batchai::image

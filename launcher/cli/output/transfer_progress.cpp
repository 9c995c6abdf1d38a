// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/transfer_progress.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "base/standard_error.hpp"
#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::cli {

namespace {

constexpr std::chrono::milliseconds between_lines{100};
constexpr std::size_t cells = 20;
constexpr std::size_t longest_name = 40;

// A terminal's line must not break, so a long name loses its beginning.
std::string shortened(const std::string& name) {
    auto text = job::printable(name);
    if (text.size() <= longest_name) return text;
    auto begin = text.size() - longest_name;
    while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U)
        ++begin;
    return "…" + text.substr(begin);
}

}  // namespace

std::string progress_line(const std::string& name, std::int64_t done, std::int64_t total) {
    const double part =
        total <= 0 ? 1.0
                   : std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
    const auto full = static_cast<std::size_t>(part * static_cast<double>(cells));
    return fmt::format("{} [{:<{}}] {:5.1f}% of {}", shortened(name), std::string(full, '#'), cells,
                       100.0 * part, base::size_text(total));
}

TransferProgress::TransferProgress(bool wanted)
    : shows_(wanted && !only_errors_are_shown() && isatty(STDERR_FILENO) != 0) {}

TransferProgress::~TransferProgress() {
    if (width_ > 0) base::print_error("\n");
}

void TransferProgress::begin(const std::string& name, std::int64_t total) {
    if (!shows_) return;
    if (width_ > 0) base::print_error("\n");
    width_ = 0;
    name_ = name;
    total_ = total;
    print(0);
}

void TransferProgress::show(std::int64_t done) {
    if (!shows_) return;
    const bool is_last = done >= total_;
    if (!is_last && std::chrono::steady_clock::now() - last_ < between_lines) return;
    print(done);
}

void TransferProgress::print(std::int64_t done) {
    const auto line = progress_line(name_, done, total_);
    base::print_error("\r{:<{}}", line, width_);
    std::fflush(stderr);
    width_ = line.size();
    last_ = std::chrono::steady_clock::now();
}

}  // namespace batchai::cli

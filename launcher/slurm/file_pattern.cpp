// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/file_pattern.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::slurm {

bool is_pattern(std::string_view path) {
    return path.find_first_of("%\\") != std::string_view::npos;
}

std::string_view directory_of_output(std::string_view path) {
    return path.substr(0, path.rfind('/'));
}

std::string batch_output(std::string_view path) {
    // One "\" is enough for Slurm to replace nothing, and then each has to be doubled.
    const char doubled = path.find('\\') == std::string_view::npos ? '%' : '\\';
    std::string out;
    for (const char c : path) {
        out += c;
        if (c == doubled) out += c;
    }
    return out;
}

bool can_name_backslash(std::string_view release) {
    const auto numbers = base::split(release, '.');
    if (numbers.size() < 2) return false;
    const int year = base::number_in<int>(numbers[0]).value_or(99);
    return year < 24 || (year == 24 && base::number_in<int>(numbers[1]).value_or(99) < 11);
}

base::Arguments output_options(const std::string& output, const std::string& errors) {
    const std::string_view directory = directory_of_output(output);
    if (!is_pattern(directory))
        return {fmt::format("--output={}", output), fmt::format("--error={}", errors)};
    const auto name = [&](const std::string& path) { return path.substr(directory.size() + 1); };
    return {fmt::format("--chdir={}", directory), fmt::format("--output={}", name(output)),
            fmt::format("--error={}", name(errors))};
}

}  // namespace batchai::slurm

// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/step_variables.hpp"

#include <string_view>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::record {

namespace {

constexpr std::size_t variables_limit = 1UL << 20U;

}  // namespace

base::Result<void> write_step_variables(const JobFiles& files, const base::Environment& variables) {
    // Each entry ends with a zero byte, which no value can contain. The kernel uses the same
    // format.
    std::string text;
    for (const std::string& entry : variables)
        text += entry + '\0';
    return base::write_atomically(files.step_variables(), text);
}

base::Result<base::Environment> read_step_variables(const JobFiles& files) {
    base::Environment variables;
    const auto text = TRY(base::read_file(files.step_variables(), variables_limit));
    for (const std::string_view entry : base::split(text, '\0')) {
        if (entry.find('=') != std::string_view::npos) variables.emplace_back(entry);
    }
    return variables;
}

}  // namespace batchai::record

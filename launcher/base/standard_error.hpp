// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace batchai::base {

// Prints on standard error. What cannot be written there is lost. fmt::print() would throw, and so
// end a command, often while it reports an error, only because the disk of its log is full.
template <typename... Values>
void print_error(fmt::format_string<Values...> format, Values&&... values) {
    const std::string text = fmt::format(format, std::forward<Values>(values)...);
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

}  // namespace batchai::base

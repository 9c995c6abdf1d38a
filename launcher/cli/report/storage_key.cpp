// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/storage_key.hpp"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/file.hpp"
#include "base/text.hpp"
#include "spank/protocol.h"

namespace batchai::cli {
namespace {

constexpr const char* key_variable = BATCHAI_STORAGE_KEY_VARIABLE;
// Options may be abbreviated, but not so far that this one could be --storage-account-name.
constexpr std::string_view shortest_option = "--storage-account-k";
constexpr std::size_t file_limit = 4096;

std::optional<std::string>& taken_key() {
    static std::optional<std::string> key;
    return key;
}

void overwrite(char* text) {
    std::memset(text, 'x', std::strlen(text));
}

}  // namespace

void hide_storage_key(int count, char** words) {
    if (char* const value = std::getenv(key_variable)) {
        if (*value != '\0') taken_key() = value;
        // /proc shows the block of memory that the program began with, whatever is unset later.
        overwrite(value);
        unsetenv(key_variable);
    }
    for (int i = 1; i < count; ++i) {
        const std::string_view word = words[i];
        if (!word.starts_with(shortest_option)) continue;
        const std::size_t equals = word.find('=');
        if (equals != std::string_view::npos)
            overwrite(words[i] + equals + 1);
        else if (i + 1 < count)
            overwrite(words[++i]);
    }
}

std::optional<std::string> storage_key_of_environment() {
    return taken_key();
}

base::Result<std::string> storage_key_of_option(const std::string& value) {
    if (!value.starts_with('@')) return value;
    const std::string path = value.substr(1);
    const std::string text = TRY(base::read_file(path, file_limit));
    const std::string_view key = base::trim(std::string_view(text).substr(0, text.find('\n')));
    if (key.empty())
        return base::fail("holds no key in its first line", path, {}, base::ExitCode::usage);
    return std::string(key);
}

}  // namespace batchai::cli

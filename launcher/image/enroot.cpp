// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/enroot.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace batchai::image {

namespace {

constexpr std::string_view change_directory = "cd \"";
constexpr std::string_view after_directory = "\" && unset OLDPWD || exit 1";
constexpr std::string_view execute = "exec ";
constexpr std::string_view arguments = "\"$@\"";

// Reads words in single quotes, as bash writes them for ${word@Q}: 'it'\''s'. A word that has
// control characters is written in another way, and nothing is returned.
std::optional<std::vector<std::string>> quoted_words(std::string_view text) {
    constexpr std::string_view quote_inside = "'\\''";
    std::vector<std::string> words;
    text = base::trim(text);
    while (!text.empty()) {
        if (text.front() != '\'') return std::nullopt;
        text.remove_prefix(1);
        std::string& word = words.emplace_back();
        while (text.starts_with(quote_inside) || !text.starts_with('\'')) {
            if (text.empty()) return std::nullopt;
            const bool quote = text.front() == '\'';
            word += text.front();
            text.remove_prefix(quote ? quote_inside.size() : 1);
        }
        text.remove_prefix(1);
        if (!text.empty() && text.front() != ' ') return std::nullopt;
        text = base::trim(text);
    }
    return words;
}

bool needs_a_shell(std::string_view in_double_quotes) {
    return in_double_quotes.find_first_of("$`\\\"") != std::string_view::npos;
}

// Removes what pam_env(8) removes.
std::string_view without_words_of_pam(std::string_view entry, std::string& storage) {
    constexpr std::string_view word = "export ";
    if (entry.starts_with(word)) entry = base::trim(entry.substr(word.size()));
    const std::size_t sign = entry.find('=');
    if (sign == std::string_view::npos) return entry;
    std::string_view value = entry.substr(sign + 1);
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
        value.back() == value.front())
        value = value.substr(1, value.size() - 2);
    storage = std::string(entry.substr(0, sign + 1)).append(value);
    return storage;
}

}  // namespace

std::optional<StartScript> read_start_script(std::string_view text) {
    StartScript script;
    bool has_directory = false;
    for (std::string_view line : base::split(text, '\n')) {
        line = base::trim(line);
        if (line.starts_with(change_directory) && line.ends_with(after_directory)) {
            line.remove_prefix(change_directory.size());
            line.remove_suffix(after_directory.size());
            if (needs_a_shell(line)) return std::nullopt;
            script.working_directory = line;
            has_directory = true;
        } else if (line.starts_with(execute) && line.ends_with(arguments)) {
            line.remove_prefix(execute.size());
            line.remove_suffix(arguments.size());
            auto words = quoted_words(line);
            if (!words || !has_directory) return std::nullopt;
            script.entrypoint = std::move(*words);
            return script;
        }
    }
    return std::nullopt;
}

std::vector<std::string> read_environment_file(std::string_view text, bool of_pam) {
    std::vector<std::string> entries;
    for (std::string_view line : base::split(text, '\n')) {
        std::string storage;
        if (of_pam) line = without_words_of_pam(base::trim(line), storage);
        const std::size_t sign = line.find('=');
        if (sign != std::string_view::npos && sign != 0 && line.front() != '#')
            entries.emplace_back(line);
    }
    return entries;
}

}  // namespace batchai::image

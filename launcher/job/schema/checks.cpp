// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/checks.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "job/line_pattern.hpp"
#include "job/schema/storage_account.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

// The limit of each part of a duration, so that no sum of parts overflows.
constexpr std::int64_t largest_part = 1'000'000'000;

constexpr std::int64_t minute = 60;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t day = 24 * hour;

// Takes a number from the front of `text`.
std::optional<std::int64_t> take_number(std::string_view& text) {
    std::int64_t value = 0;
    if (text.starts_with('-')) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value > largest_part) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

bool take(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word)) return false;
    text.remove_prefix(word.size());
    return true;
}

// Parses "H:MM:SS", which must be the whole text. Minutes and seconds must be below 60.
std::optional<std::int64_t> clock_time(std::string_view text) {
    const auto hours = take_number(text);
    if (!hours || !take(text, ":") || text.size() != 5) return std::nullopt;
    const auto minutes = take_number(text);
    if (!minutes || !take(text, ":") || text.size() != 2) return std::nullopt;
    const auto seconds = take_number(text);
    if (!seconds || !text.empty() || *minutes > 59 || *seconds > 59) return std::nullopt;
    return *hours * hour + *minutes * minute + *seconds;
}

// Parses what follows the "P": each unit at most once, in descending order.
std::optional<std::int64_t> iso8601(std::string_view text) {
    struct Unit {
        char letter;
        bool after_t;
        std::int64_t seconds;
    };
    constexpr Unit units[] = {{'W', false, 7 * day},
                              {'D', false, day},
                              {'H', true, hour},
                              {'M', true, minute},
                              {'S', true, 1}};
    std::int64_t total = 0;
    bool in_time = false;
    bool any = false;
    for (const Unit& unit : units) {
        if (unit.after_t && !in_time) {
            if (!take(text, "T")) break;
            in_time = true;
            any = false;
        }
        std::string_view rest = text;
        const auto number = take_number(rest);
        if (!number || !rest.starts_with(unit.letter)) continue;
        text = rest.substr(1);
        total += *number * unit.seconds;
        any = true;
    }
    if (!any || !text.empty()) return std::nullopt;
    return total;
}

std::optional<std::int64_t> seconds_in(std::string_view text) {
    if (take(text, "P")) return iso8601(text);
    if (const auto time = clock_time(text)) return time;
    const auto days = take_number(text);
    if (!days) return std::nullopt;
    const bool separated = take(text, ".") || take(text, " days, ") || take(text, " day, ");
    if (!separated) return std::nullopt;
    const auto within_day = clock_time(text);
    if (!within_day || *within_day >= day) return std::nullopt;
    return *days * day + *within_day;
}

}  // namespace

std::optional<std::chrono::seconds> parse_duration(std::string_view text) {
    const auto seconds = seconds_in(base::trim(text));
    if (!seconds) return std::nullopt;
    return std::chrono::seconds(*seconds);
}

std::string format_duration(std::chrono::seconds duration) {
    const std::int64_t total = duration.count();
    const std::int64_t days = total / day;
    std::string time =
        fmt::format("{}:{:02}:{:02}", total % day / hour, total % hour / minute, total % minute);
    if (days == 0) return time;
    return fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", time);
}

namespace {

using Failure = std::optional<CheckFailure>;

Failure bad(std::string message, std::string hint = {}, Fault fault = Fault::bad_text) {
    return CheckFailure{fault, std::move(message), std::move(hint)};
}

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(), base::is_control);
}

bool is_word_character(char c) {
    return base::is_letter(c) || base::is_digit(c) || c == '_';
}

bool is_octal(char c) {
    return c >= '0' && c <= '7';
}

Failure check_path(std::string_view text) {
    if (has_control(text)) {
        return bad("must not contain control characters such as line breaks");
    }
    return std::nullopt;
}

Failure check_word(std::string_view text) {
    if (has_control(text) || text.find(' ') != std::string_view::npos) {
        return bad("must not contain blanks or control characters");
    }
    if (text.starts_with('-')) return bad("must not start with \"-\"");
    return std::nullopt;
}

Failure check_path_component(std::string_view text) {
    if (text == "." || text == ".." || text.find('/') != std::string_view::npos ||
        text.find('\\') != std::string_view::npos) {
        return bad(fmt::format("must be one name, found {}", quote(text)),
                   "leave out slashes and dots that stand for directories");
    }
    return check_word(text);
}

Failure outside(std::string message, std::string hint = "give a path such as \"myshare\"") {
    return bad("must name a directory below the mount root: " + std::move(message), std::move(hint),
               Fault::leaves_mount_root);
}

Failure check_relative_mount_path(std::string_view text) {
    if (text.empty()) return outside("it is empty");
    if (text.starts_with('/')) return outside(quote(text) + " is absolute");
    if (has_control(text)) return outside(quote(text) + " contains a control character");
    if (text.find('\\') != std::string_view::npos) {
        return outside(quote(text) + " contains a backslash", "separate directories with \"/\"");
    }
    for (const std::string_view component : base::split(text, '/')) {
        if (component == "..") return outside(quote(text) + " has a \"..\" component");
        if (component == ".") return outside(quote(text) + " has a \".\" component");
        if (component.empty()) {
            return outside(quote(text) + " has an empty component",
                           "remove the slash that is doubled or at the end");
        }
        if (component.size() > 255) return outside("a component is longer than 255 bytes");
    }
    if (text.size() > 1024) return outside("it is longer than 1024 bytes");
    return std::nullopt;
}

Failure check_variable_name(std::string_view text) {
    const bool good = !text.empty() && !base::is_digit(text.front()) &&
                      std::all_of(text.begin(), text.end(), is_word_character);
    if (good) return std::nullopt;
    return bad(fmt::format("is not a variable's name: {}", quote_name(text)),
               "use letters, digits and \"_\", with no digit in front", Fault::bad_name);
}

// Names of variables that this program, Slurm or the job's own programs need, and the beginnings of
// such names. A variable that holds a secret is taken out of the environment.
constexpr std::array<std::string_view, 24> needed_variables{
    "PATH",          "HOME",       "USER",   "LOGNAME", "SHELL",     "PWD",      "OLDPWD",
    "TERM",          "LANG",       "TZ",     "TMPDIR",  "IFS",       "ENV",      "HOSTNAME",
    "MAIL",          "DISPLAY",    "EDITOR", "MANPATH", "LS_COLORS", "LANGUAGE", "MODULEPATH",
    "SSH_AUTH_SOCK", "KRB5CCNAME", "_"};
constexpr std::array<std::string_view, 20> needed_prefixes{
    "LD_",     "LC_",     "BASH_",  "XDG_",     "PYTHON",   "LUA_",          "GLIBC_",
    "MALLOC_", "SLURM",   "_SLURM", "PMI_",     "PMIX_",    "OMPI_",         "SBATCH_",
    "SRUN_",   "SALLOC_", "SPANK_", "BATCHAI_", "AZ_BATCH", "AZURE_BATCHAI_"};

Failure check_secret_variable(std::string_view text) {
    if (auto failure = check_variable_name(text)) return failure;
    const bool needed =
        std::find(needed_variables.begin(), needed_variables.end(), text) !=
            needed_variables.end() ||
        std::any_of(needed_prefixes.begin(), needed_prefixes.end(),
                    [&](std::string_view prefix) { return text.starts_with(prefix); });
    if (!needed) return std::nullopt;
    return bad(fmt::format("cannot be {}: the variable is taken out of the environment, and other "
                           "programs need this one",
                           quote(text)),
               "export the secret under a name of its own", Fault::bad_name);
}

Failure check_secret_file(std::string_view text) {
    if (auto failure = check_path(text)) return failure;
    if (text.starts_with('/') || text.starts_with("~/")) return std::nullopt;
    return bad("must be an absolute path, or begin with ~/", R"(for example "~/keys/token")");
}

Failure check_directory_id(std::string_view text) {
    if (!text.empty() && std::all_of(text.begin(), text.end(), is_word_character)) {
        return std::nullopt;
    }
    return bad(fmt::format("is part of a variable's name and cannot be {}", quote(text)),
               "use letters, digits and \"_\"", Fault::bad_name);
}

Failure check_octal_mode(std::string_view text) {
    const bool good = (text.size() == 3 || (text.size() == 4 && text.front() == '0')) &&
                      std::all_of(text.begin(), text.end(), is_octal);
    if (good) return std::nullopt;
    return bad(fmt::format("is not a file mode: {}", quote(text)),
               "give octal digits such as \"0755\"");
}

Failure check_memory_size(std::string_view text) {
    std::string_view unit = text.substr(static_cast<std::size_t>(
        std::find_if_not(text.begin(), text.end(), base::is_digit) - text.begin()));
    const bool has_digits = unit.size() < text.size() && text.size() - unit.size() <= 15;
    const std::string lower = base::lower(unit);
    const bool good_unit = lower.empty() || lower == "b" || lower == "k" || lower == "m" ||
                           lower == "g" || lower == "kb" || lower == "mb" || lower == "gb";
    if (has_digits && good_unit) return std::nullopt;
    return bad(fmt::format("is not a memory size: {}", quote(text)),
               "give a whole number and b, k, m or g, such as \"16g\"");
}

Failure check_file_share_url(std::string_view text) {
    if (azure_file_location(text)) return std::nullopt;
    return bad(fmt::format("Ill-formed Azure File URL {}", quote(text)),
               "write https://<account>.file.core.windows.net/<share>", Fault::storage_account);
}

Failure check_option_text(std::string_view text) {
    if (has_control(text)) {
        return bad("must not contain control characters such as line breaks");
    }
    if (text.starts_with('-')) return bad("must not start with \"-\"");
    return std::nullopt;
}

Failure check_option_list(std::string_view text) {
    if (auto failure = check_word(text)) return failure;
    int depth = 0;
    char before = ',';
    for (const char c : text) {
        if (before == ',' && (c == ',' || c == ']')) return bad("has an empty element");
        if (c == '[') ++depth;
        if (c == ']') --depth;
        if (depth < 0 || depth > 1) return bad("has brackets that do not match");
        before = c == '[' ? ',' : c;
    }
    if (depth != 0) return bad("has brackets that do not match");
    if (before == ',') return bad("has an empty element", "remove the comma at the end");
    return std::nullopt;
}

// Takes a number of up to 9 digits from the front of `text`.
std::optional<std::int64_t> take_index(std::string_view& text) {
    std::size_t digits = 0;
    while (digits < text.size() && base::is_digit(text[digits]))
        ++digits;
    if (digits == 0 || digits > 9) return std::nullopt;
    const auto number = base::number_in<std::int64_t>(text.substr(0, digits));
    text.remove_prefix(digits);
    return number;
}

Failure check_array_indexes(std::string_view text) {
    const auto wrong = [&] {
        return bad(fmt::format("is not a list of array indexes: {}", quote(text)),
                   R"(write it as "0-15", "1,3,5-7", "0-99:2" or "0-99%4")");
    };
    std::string_view rest = text;
    do {
        const auto first = take_index(rest);
        if (!first) return wrong();
        if (!take(rest, "-")) continue;
        const auto last = take_index(rest);
        if (!last || *last < *first) return wrong();
        if (!take(rest, ":")) continue;
        const auto step = take_index(rest);
        if (!step || *step == 0) return wrong();
    } while (take(rest, ","));
    if (take(rest, "%")) {
        const auto at_once = take_index(rest);
        if (!at_once || *at_once == 0) return wrong();
    }
    if (!rest.empty()) return wrong();
    return std::nullopt;
}

Failure check_option_memory(std::string_view text) {
    std::string_view unit = text;
    const bool number = take_index(unit).has_value();
    const bool good =
        unit.empty() || (unit.size() == 1 &&
                         std::string_view("kmgtKMGT").find(unit.front()) != std::string_view::npos);
    if (number && good) return std::nullopt;
    return bad(fmt::format("is not a memory size: {}", quote(text)),
               "give a whole number and K, M, G or T, such as \"64G\"");
}

Failure check_gpu_counts(std::string_view text) {
    for (std::string_view count : base::split(text, ',')) {
        const std::size_t colon = count.find(':');
        const std::string_view type =
            colon == std::string_view::npos ? std::string_view("gpu") : count.substr(0, colon);
        if (colon != std::string_view::npos) count.remove_prefix(colon + 1);
        const bool number = take_index(count).has_value() && count.empty();
        if (!number || type.empty() || check_word(type))
            return bad(fmt::format("is not a number of GPUs: {}", quote(text)),
                       R"(write it as "2" or "a100:2")");
    }
    return std::nullopt;
}

Failure check_retry_cause(std::string_view text) {
    for (const std::string_view cause : retry_causes) {
        if (text == cause) return std::nullopt;
    }
    std::string_view rest = text;
    const auto first = take_index(rest);
    const auto last = first && take(rest, "-") ? take_index(rest) : first;
    if (first && last && rest.empty() && *first >= 1 && *first <= *last && *last <= 255)
        return std::nullopt;
    return bad(fmt::format("names no cause: {}", quote(text)),
               fmt::format("give {}, or exit codes from 1 to 255 as \"75\" or \"130-140\"",
                           fmt::join(retry_causes, ", ")));
}

// Some versions of the module command put the name into a shell command.
Failure check_module_name(std::string_view text) {
    constexpr std::string_view others = "._+/@:=~-";
    const bool good = !text.starts_with('-') && std::all_of(text.begin(), text.end(), [&](char c) {
        return is_word_character(c) || others.find(c) != std::string_view::npos;
    });
    if (good) return std::nullopt;
    return bad(fmt::format("is not a module's name: {}", quote(text)),
               R"(write it as `module avail` shows it, such as "cuda/12.4")", Fault::bad_name);
}

template <typename Pattern>
Failure check_pattern(std::string_view text) {
    const auto pattern = Pattern::compile(text);
    if (!pattern) return bad(pattern.error().what, pattern.error().hint);
    return std::nullopt;
}

}  // namespace

std::optional<CheckFailure> check_text(Check check, std::string_view text) {
    if (text.find('\0') != std::string_view::npos) return bad("must not contain U+0000");
    if (check == Check::anything) return std::nullopt;
    if (check == Check::relative_mount_path) return check_relative_mount_path(text);
    if (text.empty()) return bad("must not be empty");
    switch (check) {
        case Check::word:
            return check_word(text);
        case Check::path:
            return check_path(text);
        case Check::path_component:
            return check_path_component(text);
        case Check::variable_name:
            return check_variable_name(text);
        case Check::secret_variable:
            return check_secret_variable(text);
        case Check::secret_file:
            return check_secret_file(text);
        case Check::directory_id:
            return check_directory_id(text);
        case Check::file_share_url:
            return check_file_share_url(text);
        case Check::octal_mode:
            return check_octal_mode(text);
        case Check::memory_size:
            return check_memory_size(text);
        case Check::option_text:
            return check_option_text(text);
        case Check::option_list:
            return check_option_list(text);
        case Check::array_indexes:
            return check_array_indexes(text);
        case Check::option_memory:
            return check_option_memory(text);
        case Check::gpu_counts:
            return check_gpu_counts(text);
        case Check::retry_cause:
            return check_retry_cause(text);
        case Check::module_name:
            return check_module_name(text);
        case Check::metric_pattern:
            return check_pattern<MetricPattern>(text);
        case Check::line_pattern:
            return check_pattern<LinePattern>(text);
        case Check::none:
        case Check::anything:
        case Check::relative_mount_path:
            break;
    }
    return std::nullopt;
}

std::string_view pattern_of(Check check) {
    switch (check) {
        case Check::none:
        case Check::anything:
        case Check::metric_pattern:
        case Check::line_pattern:
            return {};
        case Check::word:
            return R"(^[^- \u0000-\u001f\u007f][^ \u0000-\u001f\u007f]*$)";
        case Check::path:
            return R"(^[^\u0000-\u001f\u007f]+$)";
        case Check::relative_mount_path:
            return R"(^(?!\.{1,2}(/|$))[^/\\\u0000-\u001f\u007f]+)"
                   R"((/(?!\.{1,2}(/|$))[^/\\\u0000-\u001f\u007f]+)*$)";
        case Check::path_component:
            return R"(^(?!\.{1,2}$)[^-/\\ \u0000-\u001f\u007f][^/\\ \u0000-\u001f\u007f]*$)";
        case Check::variable_name:
        case Check::secret_variable:
            return "^[A-Za-z_][A-Za-z0-9_]*$";
        case Check::secret_file:
            return R"(^(/|~/)[^\u0000-\u001f\u007f]*$)";
        case Check::directory_id:
            return "^[A-Za-z0-9_]+$";
        case Check::file_share_url:
            return "^https?://[^/.]+\\.[^/]+/[^/]+";
        case Check::octal_mode:
            return "^0?[0-7]{3}$";
        case Check::memory_size:
            return "^[0-9]+([bB]|[kKmMgG][bB]?)?$";
        case Check::option_text:
            return R"(^[^-\u0000-\u001f\u007f][^\u0000-\u001f\u007f]*$)";
        case Check::option_list:
            return R"(^[^-, \u0000-\u001f\u007f][^ \u0000-\u001f\u007f]*$)";
        case Check::array_indexes:
            return "^[0-9]+(-[0-9]+(:[0-9]+)?)?(,[0-9]+(-[0-9]+(:[0-9]+)?)?)*(%[0-9]+)?$";
        case Check::option_memory:
            return "^[0-9]+[kKmMgGtT]?$";
        case Check::gpu_counts:
            return "^([^-:, ][^:, ]*:)?[0-9]+(,([^-:, ][^:, ]*:)?[0-9]+)*$";
        case Check::module_name:
            return "^[A-Za-z0-9_._+/@:=~][A-Za-z0-9_._+/@:=~-]*$";
        case Check::retry_cause:
            return "^(nodeFailure|preemption|timeout|hang|slow|[1-9][0-9]{0,2}(-[1-9][0-9]{0,2})?)"
                   "$";
    }
    return {};
}

}  // namespace batchai::job

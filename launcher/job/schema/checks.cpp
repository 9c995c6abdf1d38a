// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/checks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/schema/storage_account.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::job {

namespace {

using Failure = std::optional<CheckFailure>;

Failure bad(std::string message, std::string hint = {}, Fault fault = Fault::bad_text) {
    return CheckFailure{fault, std::move(message), std::move(hint)};
}

bool is_control(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
}

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(), is_control);
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_word_character(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || is_digit(c) || c == '_';
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
    const bool good = !text.empty() && !is_digit(text.front()) &&
                      std::all_of(text.begin(), text.end(), is_word_character);
    if (good) return std::nullopt;
    return bad(fmt::format("is not a variable's name: {}", quote(text)),
               "use letters, digits and \"_\", with no digit in front", Fault::bad_name);
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
        std::find_if_not(text.begin(), text.end(), is_digit) - text.begin()));
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
        case Check::directory_id:
            return check_directory_id(text);
        case Check::file_share_url:
            return check_file_share_url(text);
        case Check::octal_mode:
            return check_octal_mode(text);
        case Check::memory_size:
            return check_memory_size(text);
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
            return "^[A-Za-z_][A-Za-z0-9_]*$";
        case Check::directory_id:
            return "^[A-Za-z0-9_]+$";
        case Check::file_share_url:
            return "^https?://[^/.]+\\.[^/]+/[^/]+";
        case Check::octal_mode:
            return "^0?[0-7]{3}$";
        case Check::memory_size:
            return "^[0-9]+([bB]|[kKmMgG][bB]?)?$";
    }
    return {};
}

}  // namespace batchai::job

// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/names.hpp"

#include <fmt/format.h>

namespace batchai::store {

namespace {

bool is_allowed(Kind kind, char c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
    return c == '-' || c == '_' || (c == '.' && kind == Kind::group);
}

std::string shown(char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) return fmt::format("byte 0x{:02x}", byte);
    return fmt::format("\"{}\"", c);
}

}  // namespace

std::string_view kind_name(Kind kind) {
    switch (kind) {
        case Kind::group:
            return "resource group";
        case Kind::workspace:
            return "workspace";
        case Kind::experiment:
            return "experiment";
        case Kind::cluster:
            return "cluster";
        case Kind::job:
            return "job";
    }
    return "resource";
}

base::Result<void> check_name(Kind kind, std::string_view name) {
    const std::size_t longest = kind == Kind::group ? 90 : 64;
    const std::string where = fmt::format("{} name", kind_name(kind));
    const std::string hint =
        fmt::format("a {} has 1 to {} letters, digits, \"-\"{} \"_\"{}", where, longest,
                    kind == Kind::group ? "," : " and", kind == Kind::group ? " and \".\"" : "");
    const auto refuse = [&](std::string what) {
        return base::fail(std::move(what), where, hint, base::ExitCode::usage);
    };
    if (name.empty()) return refuse("is empty");
    if (name.size() > longest)
        return refuse(fmt::format("has {} characters, {} are allowed", name.size(), longest));
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (!is_allowed(kind, name[i]))
            return refuse(fmt::format("{} at character {} is not allowed", shown(name[i]), i + 1));
    }
    if (name == "." || name == "..") return refuse(fmt::format("\"{}\" is not allowed", name));
    return {};
}

}  // namespace batchai::store

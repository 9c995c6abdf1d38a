// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/trust.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>

namespace batchai::base {

namespace {

constexpr int longest_chain = 40;  // of links, as in the kernel

std::optional<std::string> fault_of(const std::string& path, const struct stat& status) {
    if (S_ISLNK(status.st_mode))
        return status.st_uid == 0 ? std::nullopt
                                  : std::optional(fmt::format("the link {} belongs to user {}",
                                                              path, status.st_uid));
    if (status.st_uid != 0) return fmt::format("{} belongs to user {}", path, status.st_uid);
    const bool sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky)
        return fmt::format("{} can be written to by others (mode {:04o})", path,
                           status.st_mode & 07777U);
    return std::nullopt;
}

std::optional<std::string> check(const std::filesystem::path& path, int links_left) {
    if (links_left == 0) return fmt::format("{} has too many links", path.string());
    if (!path.is_absolute()) return fmt::format("{} is not an absolute path", path.string());
    std::filesystem::path here;
    for (const auto& component : path.lexically_normal()) {
        const std::filesystem::path parent = here;
        here /= component;
        struct stat status {};
        if (lstat(here.c_str(), &status) != 0)
            return fmt::format("{}: {}", here.string(), std::strerror(errno));
        if (auto fault = fault_of(here.string(), status)) return fault;
        if (!S_ISLNK(status.st_mode)) continue;
        std::error_code error;
        const auto target = std::filesystem::read_symlink(here, error);
        if (error) return fmt::format("{}: {}", here.string(), error.message());
        // What follows the link is below its target, so it is checked there.
        const auto rest = path.lexically_normal().lexically_relative(here);
        const auto full = parent / target;
        return check(rest == "." ? full : full / rest, links_left - 1);
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> who_else_can_change(const std::string& path) {
    return check(path, longest_chain);
}

}  // namespace batchai::base

// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/elastic_files.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/file.hpp"
#include "base/record.hpp"

namespace batchai::record {

namespace {

struct RanksLeft {
    std::string start;

    static constexpr auto fields(auto field) {
        return std::tuple{field("start", &RanksLeft::start)};
    }
};

constexpr std::string_view update_schema = "batchai-hosts-update/v1";
constexpr std::string_view left_schema = "batchai-ranks-left/v1";
constexpr std::string_view resize_schema = "batchai-resize-request/v1";
constexpr std::size_t elastic_file_limit = 1UL << 16U;
constexpr mode_t only_for_the_user = 0600;
constexpr mode_t directory_of_the_user = 0700;

}  // namespace

base::Result<void> announce(const JobFiles& files, const HostsUpdate& update) {
    TRY(base::make_directories(files.elastic(), directory_of_the_user));
    TRY(base::check_own_directory(files.elastic().string()));
    return base::write_atomically(files.hosts_update(), base::to_record(update, update_schema),
                                  only_for_the_user);
}

bool ranks_have_left(const JobFiles& files, const std::string& start) {
    if (!base::check_own_directory(files.elastic().string())) return false;
    const auto text = base::read_file(files.ranks_left(), elastic_file_limit);
    if (!text) return false;
    const auto left = base::from_record<RanksLeft>(*text, left_schema);
    return left && left->start == start;
}

void forget_hosts_updates(const JobFiles& files) {
    std::error_code ignored;
    std::filesystem::remove(files.hosts_update(), ignored);
    std::filesystem::remove(files.ranks_left(), ignored);
}

void forget_resize_request(const JobFiles& files) {
    std::error_code ignored;
    std::filesystem::remove(files.resize_request(), ignored);
}

base::Result<void> write_resize_request(const JobFiles& files, const ResizeRequest& request) {
    TRY(base::check_own_directory(files.directory().string()));
    return base::write_atomically(files.resize_request(), base::to_record(request, resize_schema),
                                  only_for_the_user);
}

base::Result<std::optional<ResizeRequest>> take_resize_request(const JobFiles& files) {
    const JobFiles::Path path = files.resize_request();
    // A newer request, written after this one was read, must not be removed unread.
    JobFiles::Path taken = path;
    taken += ".taken";
    if (!base::rename_file(path, taken)) {
        if (errno == ENOENT) return std::optional<ResizeRequest>();
        return base::system_error("read", path);
    }
    const auto text = base::read_file(taken, elastic_file_limit);
    std::error_code ignored;
    std::filesystem::remove(taken, ignored);
    if (!text) return tl::unexpected(text.error());
    return std::optional<ResizeRequest>(TRY(
        base::from_record<ResizeRequest>(*text, resize_schema).map_error([&](base::Error fault) {
            fault.where = path.string();
            return fault;
        })));
}

}  // namespace batchai::record

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
#include "base/text.hpp"

namespace batchai::record {

namespace {

// What only says which start it is about.
struct OfStart {
    std::string start;

    static constexpr auto fields(auto field) { return std::tuple{field("start", &OfStart::start)}; }
};

constexpr std::string_view update_schema = "batchai-hosts-update/v1";
constexpr std::string_view left_schema = "batchai-ranks-left/v1";
constexpr std::string_view stay_schema = "batchai-ranks-stay/v1";
constexpr std::string_view lost_schema = "batchai-ranks-lost/v1";
constexpr std::string_view lost_answer_schema = "batchai-ranks-lost-answer/v1";
constexpr std::string_view resize_schema = "batchai-resize-request/v1";
constexpr std::size_t elastic_file_limit = 1UL << 20U;
constexpr mode_t only_for_the_user = 0600;
constexpr mode_t directory_of_the_user = 0700;

// Reads a record of the ranks, which need not be there.
template <typename Record>
std::optional<Record> record_of_ranks(const JobFiles& files, const JobFiles::Path& path,
                                      std::string_view schema, const std::string& start) {
    if (!base::check_own_directory(files.elastic().string())) return std::nullopt;
    const auto text = base::read_file(path, elastic_file_limit);
    if (!text) return std::nullopt;
    auto record = base::from_record<Record>(*text, schema);
    if (!record || record->start != start) return std::nullopt;
    return std::move(*record);
}

}  // namespace

base::Result<void> announce(const JobFiles& files, const HostsUpdate& update) {
    TRY(base::make_directories(files.elastic(), directory_of_the_user));
    TRY(base::check_own_directory(files.elastic().string()));
    return base::write_atomically(files.hosts_update(), base::to_record(update, update_schema),
                                  only_for_the_user);
}

bool ranks_have_left(const JobFiles& files, const std::string& start) {
    return record_of_ranks<OfStart>(files, files.ranks_left(), left_schema, start).has_value();
}

void forget_hosts_updates(const JobFiles& files) {
    std::error_code ignored;
    std::filesystem::remove(files.hosts_update(), ignored);
    std::filesystem::remove(files.ranks_left(), ignored);
}

bool ranks_stay(const JobFiles& files, const std::string& start) {
    return record_of_ranks<OfStart>(files, files.ranks_stay(), stay_schema, start).has_value();
}

std::optional<RanksLost> ranks_lost(const JobFiles& files, const std::string& start) {
    return record_of_ranks<RanksLost>(files, files.ranks_lost(), lost_schema, start);
}

base::Result<void> answer(const JobFiles& files, const RanksLostAnswer& answer) {
    TRY(base::check_own_directory(files.elastic().string()));
    return base::write_atomically(files.ranks_lost_answer(),
                                  base::to_record(answer, lost_answer_schema), only_for_the_user);
}

std::set<int> ended_ranks(const JobFiles& files, std::string_view start) {
    std::set<int> ended;
    if (!base::check_own_directory(files.elastic().string())) return ended;
    std::error_code ignored;
    const std::string prefix = JobFiles::end_of_ranks(start);
    for (const auto& entry : base::entries_of(files.elastic(), ignored)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(prefix)) continue;
        if (const auto task = base::number_in<int>(std::string_view(name).substr(prefix.size())))
            ended.insert(*task);
    }
    return ended;
}

void forget_ranks_lost(const JobFiles& files) {
    if (!base::check_own_directory(files.elastic().string())) return;
    std::error_code ignored;
    std::vector<JobFiles::Path> ends;
    for (const auto& entry : base::entries_of(files.elastic(), ignored)) {
        if (entry.path().filename().string().starts_with(JobFiles::end_of_ranks("")))
            ends.push_back(entry.path());
    }
    for (const JobFiles::Path& path : ends)
        std::filesystem::remove(path, ignored);
    for (const JobFiles::Path& path :
         {files.ranks_stay(), files.ranks_lost(), files.ranks_lost_answer()})
        std::filesystem::remove(path, ignored);
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

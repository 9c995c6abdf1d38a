// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/attempt.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "base/file.hpp"
#include "base/record.hpp"

namespace batchai::base {

using record::Attempt;
using record::Failure;
using record::Phase;
using record::Restart;

template <>
struct RecordOf<Phase> {
    static constexpr auto fields =
        std::tuple{field("name", &Phase::name), field("start", &Phase::start),
                   field("end", &Phase::end), field("exitCode", &Phase::exit_code)};
};

template <>
struct RecordOf<Failure> {
    static constexpr auto fields = std::tuple{field("code", &Failure::code),
                                              field("message", &Failure::message),
                                              field("phase", &Failure::phase),
                                              field("node", &Failure::node),
                                              field("rank", &Failure::rank),
                                              field("signal", &Failure::signal),
                                              field("exitCode", &Failure::exit_code),
                                              field("firstErrorLine", &Failure::first_error_line)};
};

template <>
struct RecordOf<Restart> {
    static constexpr auto fields =
        std::tuple{field("time", &Restart::time), field("nodes", &Restart::nodes),
                   field("failure", &Restart::failure)};
};

template <>
struct RecordOf<Attempt> {
    static constexpr auto fields = std::tuple{
        field("attempt", &Attempt::number), field("slurmJobId", &Attempt::slurm_job_id),
        field("nodes", &Attempt::nodes), field("start", &Attempt::start),
        field("end", &Attempt::end), field("exitCode", &Attempt::exit_code),
        field("phases", &Attempt::phases),
        // Records of version 0.1.0 have none.
        field("restarts", &Attempt::restarts).or_missing(), field("failure", &Attempt::failure)};
};

}  // namespace batchai::base

namespace batchai::record {

namespace {

constexpr std::string_view schema = "batchai-attempt/v1";

}  // namespace

std::string to_json(const Attempt& attempt) {
    return base::to_record(attempt, schema);
}

base::Result<Attempt> attempt_from_json(std::string_view text) {
    return base::from_record<Attempt>(text, schema).map_error([](base::Error fault) {
        fault.what = "the attempt's record is damaged: " + fault.what;
        return fault;
    });
}

base::Result<std::optional<Attempt>> latest_attempt(const JobFiles& files) {
    int newest = -1;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(files.attempts(), error)) {
        const std::string name = entry.path().filename().string();
        int number = -1;
        const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
        if (code == std::errc() && std::string_view(end) == ".json")
            newest = std::max(newest, number);
    }
    if (newest < 0) return std::optional<Attempt>();
    const std::string path = files.attempt(newest);
    return base::read_file(path).and_then([&](const std::string& text) {
        return attempt_from_json(text)
            .map([](Attempt attempt) { return std::optional<Attempt>(std::move(attempt)); })
            .map_error([&](base::Error failed) {
                failed.where = path;
                return failed;
            });
    });
}

}  // namespace batchai::record

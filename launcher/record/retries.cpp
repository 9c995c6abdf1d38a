// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/retries.hpp"

#include <string_view>
#include <tuple>

#include "base/file.hpp"
#include "base/record.hpp"

namespace batchai::record {

namespace {

constexpr std::string_view retries_schema = "batchai-retries/v1";

}  // namespace

base::Result<std::optional<RetryCount>> read_retry_count(const JobFiles& files) {
    const auto path = files.retries();
    const auto text = base::read_file(path);
    if (!text && text.error().exit_code == base::ExitCode::not_found)
        return std::optional<RetryCount>();
    if (!text) return tl::unexpected(text.error());
    auto count = base::from_record<RetryCount>(*text, retries_schema);
    if (!count) {
        count.error().where = path.string();
        return tl::unexpected(count.error());
    }
    return std::optional<RetryCount>(*count);
}

base::Result<void> write_retry_count(const JobFiles& files, const RetryCount& count) {
    // This is the first file of a task of an array job.
    TRY(base::make_directories(files.directory()));
    return base::write_atomically(files.retries(), base::to_record(count, retries_schema));
}

}  // namespace batchai::record

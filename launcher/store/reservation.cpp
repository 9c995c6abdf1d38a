// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/reservation.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/lock.hpp"
#include "record/job_files.hpp"
#include "store/directory.hpp"
#include "store/records.hpp"

namespace batchai::store {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view reserved_prefix = ".reserved.";
// claim() gives this prefix to a marker. The file stays only if the claimant died right after that.
constexpr std::string_view claimed_prefix = ".claimed.";

bool reservation_is_abandoned(const fs::path& marker) {
    std::error_code code;
    const fs::file_time_type written = fs::last_write_time(marker, code);
    const auto text = base::read_file(marker, 4096);
    return !code && text && is_abandoned(*text, written);
}

// Returns whether a claim was left behind by a process that died. Its text is still that of the
// marker, so only its age counts. A claimant needs only moments, and the rename that made the claim
// set the ctime of the file.
bool claim_is_abandoned(const fs::path& claimed) {
    struct stat status {};
    if (lstat(claimed.c_str(), &status) != 0) return false;
    const auto changed = std::chrono::system_clock::from_time_t(status.st_ctime);
    return std::chrono::system_clock::now() - changed > std::chrono::minutes(5);
}

}  // namespace

std::string marker_name(std::string_view token) {
    return fmt::format("{}{}", reserved_prefix, token);
}

std::string marker_text() {
    return base::Holder::self().text();
}

bool is_abandoned(std::string_view text, fs::file_time_type written) {
    const base::Holder holder = base::Holder::parse(text);
    if (holder.is_here()) return holder.is_gone();
    return fs::file_time_type::clock::now() - written > std::chrono::hours(1);
}

bool claim(const fs::path& directory, std::string_view token) {
    const fs::path claimed = directory / fmt::format("{}{}", claimed_prefix, base::random_uuid());
    return std::rename((directory / marker_name(token)).c_str(), claimed.c_str()) == 0;
}

base::Result<bool> reclaim(const fs::path& home, const fs::path& directory) {
    std::error_code code;
    if (fs::exists(record::JobFiles(directory).record(), code)) return false;
    auto names = TRY(names_in(directory));
    for (const std::string& name : names) {
        const bool reserved = name.starts_with(reserved_prefix);
        if (!reserved && !name.starts_with(claimed_prefix)) continue;
        if (!(reserved ? reservation_is_abandoned(directory / name)
                       : claim_is_abandoned(directory / name)))
            return false;
        const fs::path claimed =
            directory / fmt::format("{}{}", claimed_prefix, base::random_uuid());
        if (std::rename((directory / name).c_str(), claimed.c_str()) != 0) return false;
        // From here on only this process changes the directory. If a late commit() has left a
        // record in it, the job exists and is kept.
        if (fs::exists(record::JobFiles(directory).record(), code)) return false;
        TRY(discard(home, directory));
        return true;
    }
    return false;
}

JobReservation::~JobReservation() {
    if (token_.empty()) return;
    // Another process may have found the reservation abandoned and taken the name. The directory is
    // removed only if it is still ours.
    if (claim(files_.directory(), token_)) static_cast<void>(discard(home_, files_.directory()));
}

base::Result<void> JobReservation::commit(const Job& job) {
    if (token_.empty()) return base::fail("the job is committed already", key_.job);
    if (job.key != key_)
        return base::fail("the record is not of the reserved job", files_.directory().string());
    if (!std::filesystem::exists(files_.directory() / marker_name(token_)))
        return base::fail(
            "the reservation of the job's name was lost", files_.directory().string(),
            "another process considered the reservation abandoned; create the job again");
    const std::string text = TRY(readable(to_json(job)));
    TRY(base::create_exclusively(files_.record(), text, 0600));
    std::error_code ignored;  // a marker beside a record has no effect
    std::filesystem::remove(files_.directory() / marker_name(token_), ignored);
    token_.clear();
    return {};
}

}  // namespace batchai::store

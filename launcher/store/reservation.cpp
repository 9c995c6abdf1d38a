// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/reservation.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
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

using std::chrono::seconds;

constexpr std::string_view reserved_prefix = ".reserved.";
// claim() gives this prefix to a marker. The file stays only if the claimant died right after that.
constexpr std::string_view claimed_prefix = ".claimed.";

// How long a process that may still live can be silent before its reservation counts as abandoned.
// One of this host's name that another boot has started is most likely gone, but two machines can
// have one name.
seconds allowed_silence(const base::Holder& holder) {
    constexpr std::chrono::minutes after_restart{2};
    const base::Holder self = base::Holder::self();
    const bool of_another_boot =
        !holder.host.empty() && holder.host == self.host && holder.boot != self.boot;
    return of_another_boot ? after_restart : longest_silence;
}

// Returns the time by the clock of the machine that has the files, which may differ from ours.
std::time_t time_of_files(const fs::path& home) {
    struct stat status {};
    const auto probe = new_directory(home);
    if (!probe || lstat(probe->c_str(), &status) != 0) return std::time(nullptr);
    std::error_code ignored;
    fs::remove(*probe, ignored);
    return status.st_mtime;
}

// The marker of a reservation, or what a claimant has made of it.
struct Marker {
    std::string name;
    base::Holder holder;
    seconds age{0};
    bool abandoned = false;
};

base::Result<std::optional<Marker>> marker_in(const fs::path& directory, std::time_t now) {
    const auto names = TRY(names_in(directory));
    const auto found = std::find_if(names.begin(), names.end(), [](const std::string& name) {
        return name.starts_with(reserved_prefix) || name.starts_with(claimed_prefix);
    });
    if (found == names.end()) return std::nullopt;
    struct stat status {};
    const fs::path path = directory / *found;
    const auto text = base::read_file(path, 4096);
    if (!text || lstat(path.c_str(), &status) != 0) return std::nullopt;
    // The text of a claim is still that of the marker, so only its age counts. A claimant needs
    // only the time of some questions to Slurm, and the rename that made the claim set the ctime of
    // the file.
    const bool reserved = found->starts_with(reserved_prefix);
    const std::time_t changed = reserved ? status.st_mtime : status.st_ctime;
    const seconds age(std::max<std::time_t>(now - changed, 0));
    return Marker{.name = *found,
                  .holder = base::Holder::parse(*text),
                  .age = age,
                  .abandoned = reserved ? is_abandoned(*text, age) : age > longest_silence};
}

bool has_record(const fs::path& directory) {
    std::error_code code;
    return fs::exists(record::JobFiles(directory).record(), code);
}

std::string time_text(seconds time) {
    const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(time).count();
    return minutes < 2 ? fmt::format("{} s", time.count()) : fmt::format("{} min", minutes);
}

}  // namespace

std::string marker_name(std::string_view token) {
    return fmt::format("{}{}", reserved_prefix, token);
}

std::string marker_text() {
    return base::Holder::self().text();
}

bool is_abandoned(std::string_view text, seconds age) {
    const base::Holder holder = base::Holder::parse(text);
    if (holder.is_here()) return holder.is_gone();
    return age > allowed_silence(holder);
}

base::Error Unfinished::error(std::string_view job) const {
    if (abandoned)
        return {
            fmt::format("the job \"{}\" was not finished: the command that made it was ended", job),
            {},
            "`batchai job create` takes the name over, and `batchai job delete` frees it",
            base::ExitCode::not_found};
    base::Error error{fmt::format("the job \"{}\" is being created by another process", job),
                      {},
                      "wait for it, or choose another name",
                      base::ExitCode::not_found};
    if (holder.process == 0) return error;
    error.what =
        fmt::format("the job \"{}\" is being created by process {}{} (last sign of life {} ago)",
                    job, holder.process,
                    holder.host.empty() ? "" : fmt::format(" on {}", holder.host), time_text(age));
    if (!holder.is_here()) {
        const seconds allowed = allowed_silence(holder);
        error.hint += fmt::format(
            "; if that process has ended, the name is free again in {}, and on that host at once",
            time_text(allowed - std::min(age, allowed)));
    }
    return error;
}

std::optional<Unfinished> unfinished(const fs::path& directory) {
    if (has_record(directory)) return std::nullopt;
    const auto marker = marker_in(directory, std::time(nullptr));
    if (!marker || !*marker) return std::nullopt;
    return Unfinished{
        .holder = (*marker)->holder, .age = (*marker)->age, .abandoned = (*marker)->abandoned};
}

bool claim(const fs::path& directory, std::string_view token) {
    const fs::path claimed = directory / fmt::format("{}{}", claimed_prefix, base::random_uuid());
    return base::rename_file(directory / marker_name(token), claimed);
}

base::Result<bool> reclaim(const fs::path& home, const fs::path& directory,
                           const EndLeftover& end_leftover) {
    if (has_record(directory)) return false;
    const auto marker = TRY(marker_in(directory, time_of_files(home)));
    if (!marker || !marker->abandoned) return false;
    const fs::path claimed = directory / fmt::format("{}{}", claimed_prefix, base::random_uuid());
    if (!base::rename_file(directory / marker->name, claimed)) return false;
    // From here on only this process changes the directory. If a late commit() has left a record in
    // it, the job exists and is kept.
    if (has_record(directory)) return false;
    // Only now: another claimant may have made the name its own before, with a job in Slurm.
    if (auto ended = end_leftover(record::JobFiles(directory)); !ended) {
        static_cast<void>(base::rename_file(claimed, directory / marker_name(base::random_uuid())));
        return tl::unexpected(std::move(ended).error());
    }
    TRY(discard(home, directory));
    return true;
}

JobReservation::~JobReservation() {
    if (token_.empty()) return;
    // Another process may have found the reservation abandoned and taken the name. The directory is
    // removed only if it is still ours.
    if (claim(files_.directory(), token_)) static_cast<void>(discard(home_, files_.directory()));
}

base::Result<void> JobReservation::refresh() {
    constexpr seconds often_enough{20};
    const auto now = std::chrono::steady_clock::now();
    if (now - refreshed_ < often_enough) return {};
    refreshed_ = now;
    const std::string marker = (files_.directory() / marker_name(token_)).string();
    if (utimensat(AT_FDCWD, marker.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) return {};
    if (errno == ENOENT) return lost();
    return base::system_error("refresh", marker);
}

tl::unexpected<base::Error> JobReservation::lost() const {
    return base::fail("the reservation of the job's name was lost", files_.directory().string(),
                      "another process considered the reservation abandoned; create the job again");
}

base::Result<void> JobReservation::commit(const Job& job) {
    if (token_.empty()) return base::fail("the job is committed already", key_.job);
    if (job.key != key_)
        return base::fail("the record is not of the reserved job", files_.directory().string());
    if (!std::filesystem::exists(files_.directory() / marker_name(token_))) return lost();
    const std::string text = TRY(readable(to_json(job)));
    TRY(base::create_exclusively(files_.record(), text, 0600));
    std::error_code ignored;  // a marker beside a record has no effect
    std::filesystem::remove(files_.directory() / marker_name(token_), ignored);
    token_.clear();
    return {};
}

}  // namespace batchai::store

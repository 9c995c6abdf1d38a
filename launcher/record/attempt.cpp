// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/attempt.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <tuple>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/record.hpp"

namespace batchai::record {

namespace {

constexpr std::string_view attempt_schema = "batchai-attempt/v1";

// Returns the numbers of a job's attempts, in order.
std::vector<int> numbers(const JobFiles& files) {
    const base::FileDescriptor directory(
        open(files.attempts().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    std::vector<int> found;
    for (const std::string& name : base::names_in(directory.get())) {
        int number = 0;
        const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
        if (code == std::errc() && number > 0 && std::string_view(end) == ".json")
            found.push_back(number);
    }
    std::sort(found.begin(), found.end());
    return found;
}

base::Result<Attempt> read_attempt(const JobFiles& files, int number) {
    const std::string path = files.attempt(number).string();
    const std::string text = TRY(base::read_file(path));
    return attempt_from_json(text).map_error([&](base::Error failed) {
        failed.where = path;
        return failed;
    });
}

}  // namespace

bool Attempt::program_began() const {
    return std::any_of(phases.begin(), phases.end(),
                       [](const Phase& phase) { return phase.name == phase_of_ranks; });
}

std::string to_json(const Attempt& attempt) {
    return base::to_record(attempt, attempt_schema);
}

base::Value to_value(const Software& software) {
    return base::to_value(software);
}

std::string sentence_of(const Alarm& alarm) {
    std::string text = alarm.message;
    if (!alarm.node.empty()) {
        const std::string who =
            alarm.rank ? fmt::format("rank {} on {}", *alarm.rank, alarm.node) : alarm.node;
        // An alarm about slow ranks names them: "rank 2 on h2 has needed …".
        if (text.find(who + " ha") == std::string::npos)
            text += fmt::format(", waiting for {}", who);
    }
    if (!alarm.where.empty()) text += ": " + alarm.where;
    return text;
}

base::Result<Attempt> attempt_from_json(std::string_view text) {
    return base::from_record<Attempt>(text, attempt_schema).map_error([](base::Error fault) {
        fault.what = "the attempt's record is damaged: " + fault.what;
        return fault;
    });
}

base::Result<std::optional<Attempt>> latest_attempt(const JobFiles& files) {
    const std::vector<int> found = numbers(files);
    if (found.empty()) return std::optional<Attempt>();
    return std::optional<Attempt>(TRY(read_attempt(files, found.back())));
}

base::Result<std::optional<Attempt>> attempt_of(const JobFiles& files, int number) {
    const std::vector<int> found = numbers(files);
    if (std::find(found.begin(), found.end(), number) == found.end())
        return std::optional<Attempt>();
    return std::optional<Attempt>(TRY(read_attempt(files, number)));
}

base::Result<std::vector<Attempt>> all_attempts(const JobFiles& files) {
    std::vector<Attempt> attempts;
    for (const int number : numbers(files))
        attempts.push_back(TRY(read_attempt(files, number)));
    return attempts;
}

base::Result<void> settle_earlier_attempt(const JobFiles& files, int number,
                                          std::optional<EndedBy> by) {
    auto earlier = TRY(attempt_of(files, number - 1));
    // An attempt that was to run again has said why it ended.
    if (!earlier || earlier->runs_again()) return {};
    Attempt& attempt = *earlier;
    // The ranks had ended with 0 because they were told to save and to leave.
    const bool well = attempt.ended_by == EndedBy::program && attempt.exit_code == 0;
    if (well && by == EndedBy::preemption) {
        attempt.ended_by = by;
        return base::write_atomically(files.attempt(number - 1), to_json(attempt));
    }
    const bool unsaid = !attempt.ended_by || *attempt.ended_by == EndedBy::unknown;
    // Slurm does not start a cancelled job again, so a record that names the user is wrong.
    if (!unsaid && *attempt.ended_by != EndedBy::user) return {};
    if (by == EndedBy::user) by = EndedBy::requeue;
    // A node that is lost says nothing, so silence is taken for a lost node.
    attempt.ended_by = by.value_or(unsaid ? EndedBy::node : EndedBy::requeue);
    if (attempt.failure) {
        attempt.failure->code = words_of(*attempt.ended_by).code;
        attempt.failure->message = words_of(*attempt.ended_by).message;
    }
    return base::write_atomically(files.attempt(number - 1), to_json(attempt));
}

}  // namespace batchai::record

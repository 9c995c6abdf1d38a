// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/merge.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/timeline_file.hpp"

namespace mpi_bridge::timeline_tool {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::size_t write_bytes = std::size_t{1} << 20;

bool same_file(const std::string& a, const std::string& b) {
    struct stat first = {};
    struct stat second = {};
    return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// Removes only a regular file: the output may be a device.
void remove_output(const std::string& path) {
    struct stat found = {};
    if (stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode)) unlink(path.c_str());
}

Outcome<ClockEvent> read_clock(const std::string& path) {
    auto reader = TRY(EventReader::open(path));
    auto raw = TRY(reader->next());
    if (raw) {
        const auto event = TRY(parse_event(*reader, *raw));
        const auto clock = clock_of(event);
        if (!clock) return tl::unexpected<Failure>(reader->at(raw->offset, clock.error().text));
        if (*clock) return **clock;
    }
    return tl::unexpected<Failure>(
        reader->at(raw.has_value() ? raw->offset : 0,
                   "not the timeline of one rank: its first event is not \"clock\""));
}

Outcome<std::vector<ClockEvent>> read_clocks(std::span<const std::string> inputs) {
    std::vector<ClockEvent> clocks;
    std::map<int, std::string> file_of;
    for (const std::string& input : inputs) {
        auto clock = TRY(read_clock(input));
        const auto [other, added] = file_of.emplace(clock.rank, input);
        if (!added) {
            return fail(MPIB_ERROR_INVALID_ARGUMENT,
                        fmt::format("{}: byte 0: the timeline of rank {}, as {} is; give the files "
                                    "of one run",
                                    input, clock.rank, other->second));
        }
        clocks.push_back(std::move(clock));
    }
    return clocks;
}

// Collects text for larger writes.
class Output {
  public:
    explicit Output(TimelineFile& file) : file_(file) {}

    [[nodiscard]] Done add(std::string_view element) {
        if (!pending_.empty()) pending_ += ",\n";
        pending_ += element;
        return pending_.size() >= write_bytes ? flush() : Done();
    }
    [[nodiscard]] Done flush() {
        if (pending_.empty()) return {};
        Done written = file_.append(pending_);
        pending_.clear();
        return written;
    }

  private:
    TimelineFile& file_;
    std::string pending_;
};

// Returns true if the file lacks its end.
Outcome<bool> copy_events(const std::string& input, std::int64_t shift_ns, Output& output,
                          std::uint64_t& events) {
    auto reader = TRY(EventReader::open(input));
    std::string text;
    for (;;) {
        auto raw = TRY(reader->next());
        if (!raw) return reader->torn();
        auto event = TRY(parse_event(*reader, *raw));
        // This event is not copied, because it describes the clock of its own file.
        if (event.type == 'M' && event.name == "clock") continue;
        const double nanoseconds = std::round(event.time * 1000) + static_cast<double>(shift_ns);
        event.object["ts"] = nanoseconds / 1000;
        text.clear();
        event.object.dump(text);
        TRY(output.add(text));
        ++events;
    }
}

std::vector<int> ranks_without_file(std::span<const ClockEvent> clocks) {
    int size = 0;
    for (const ClockEvent& clock : clocks)
        size = std::max(size, clock.size);
    std::vector<bool> seen(static_cast<std::size_t>(std::max(size, 0)));
    for (const ClockEvent& clock : clocks) {
        const auto rank = static_cast<std::size_t>(clock.rank);
        if (rank < seen.size()) seen[rank] = true;
    }
    std::vector<int> missing;
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
        if (!seen[rank]) missing.push_back(static_cast<int>(rank));
    }
    return missing;
}

Done merge_into(std::span<const std::string> inputs, std::span<const ClockEvent> clocks,
                TimelineFile& file, MergeReport& report) {
    const auto shifts = align(clocks);
    Output output(file);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        auto torn = TRY(copy_events(inputs[i], shifts[i], output, report.events));
        if (torn) report.torn.push_back(inputs[i]);
    }
    return output.flush();
}

}  // namespace

std::vector<std::int64_t> align(std::span<const ClockEvent> clocks) {
    // The time of day minus the steady clock, of the first rank seen of each kernel.
    std::map<std::string, std::int64_t> difference_of;
    std::vector<std::int64_t> zeros;
    for (const ClockEvent& clock : clocks) {
        std::int64_t difference = clock.realtime_ns - clock.steady_ns;
        if (!clock.boot.empty()) {
            const auto known = difference_of.emplace(clock.boot, difference).first->second;
            if (std::abs(known - difference) < second_ns) difference = known;
        }
        zeros.push_back(clock.steady_ns + difference);
    }
    if (zeros.empty()) return zeros;
    const std::int64_t earliest = *std::min_element(zeros.begin(), zeros.end());
    for (std::int64_t& zero : zeros)
        zero -= earliest;
    return zeros;
}

Outcome<MergeReport> merge(std::span<const std::string> inputs, const std::string& output) {
    for (const std::string& input : inputs) {
        if (same_file(input, output)) {
            return fail(MPIB_ERROR_INVALID_ARGUMENT,
                        fmt::format("{}: is both input and output", input));
        }
    }
    const auto clocks = TRY(read_clocks(inputs));
    auto file = TRY(TimelineFile::create(output));
    MergeReport report;
    Done merged = merge_into(inputs, clocks, *file, report);
    if (!merged) {
        file.reset();
        remove_output(output);
    }
    TRY(std::move(merged));
    report.missing = ranks_without_file(clocks);
    return report;
}

}  // namespace mpi_bridge::timeline_tool

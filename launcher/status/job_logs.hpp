// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "record/job_files.hpp"
#include "record/rank_logs.hpp"

// What the ranks of a job have printed, put together from the ranks' files in the order of time.
// Memory use does not depend on how much that is.
namespace batchai::status {

// The ranks and the time that a user has asked for.
struct LogChoice {
    std::optional<std::vector<int>> ranks;  // none: all
    std::vector<std::string> nodes;         // empty: all
    bool output = true;
    bool error = true;
    std::optional<base::Time> since;
    std::optional<std::size_t> tail;  // lines
};

// Reads "0,3-5".
[[nodiscard]] base::Result<std::vector<int>> rank_list(std::string_view text);

// Reads a time such as "2018-06-21T17:15:18" (UTC), or how long ago it was: "90s", "10m", "2h",
// "1d".
[[nodiscard]] base::Result<base::Time> time_since(std::string_view text, base::Time now);

// Refuses a rank or node that the job has in none of its starts, and says what it has. A start of
// an elastic job may have fewer ranks than the one before it, and an attempt may have other nodes.
[[nodiscard]] base::Result<void> check_choice(const std::vector<record::RankPlaces>& starts,
                                              const LogChoice& choice);

// Returns for each rank of a start whether it is chosen. These may be none.
[[nodiscard]] std::vector<bool> chosen_ranks(const record::RankPlaces& places,
                                             const LogChoice& choice);

// Returns "n2:3" for a rank on a node, or "3" if the node is not known.
[[nodiscard]] std::string name_of_rank(const std::string& node, std::size_t rank);

// Gets bytes in their order. Returns false to stop, for example because the reader has gone away.
using LogSink = std::function<bool(std::string_view)>;

// Prints what ranks have printed, as it is or with a prefix in front of each line, and of what is
// printed over a line after a carriage return, as progress bars are. A line that one stream has not
// ended is ended before another stream goes on, but only if there are prefixes.
class LogPrinter {
  public:
    // `prefixes` has one for each rank, or is empty.
    LogPrinter(std::vector<std::string> prefixes, LogSink sink)
        : prefixes_(std::move(prefixes)), sink_(std::move(sink)) {}

    // The bytes are a piece of the stream, in its order. These functions return false once the sink
    // has stopped.
    bool print(std::uint32_t rank, record::RankStream stream, std::string_view bytes);
    bool flush();
    // Ends a line that no stream will go on with, but only if there are prefixes.
    bool end_line();

  private:
    std::vector<std::string> prefixes_;
    LogSink sink_;
    std::string waiting_;
    bool in_line_ = false;
    bool marked_ = false;       // a prefix has been printed since the last carriage return …
    bool line_marked_ = false;  // … and since the last end of a line
    std::pair<std::uint32_t, record::RankStream> last_;
    bool stopped_ = false;
};

// Reads what the chosen ranks have printed since one start of the ranks.
class StartReader {
  public:
    // `logs` is the directory of the job's logs, or empty if it cannot be read from here.
    StartReader(record::JobFiles files, std::filesystem::path logs, std::string start,
                std::vector<bool> ranks, const LogChoice& choice);

    // Passes over everything but what `choice` has asked for. Call before the first pump().
    [[nodiscard]] base::Result<void> skip(const LogChoice& choice);
    // Prints what has been noted since the last call. Returns whether there was anything. If there
    // is much, it returns early, and more() is true.
    [[nodiscard]] base::Result<bool> pump(LogPrinter& printer);
    [[nodiscard]] bool more() const { return more_; }
    // Prints what `batchai run` could not note, because it was killed or the disk was full. Call
    // once nothing more can come.
    [[nodiscard]] base::Result<void> rest(LogPrinter& printer);
    // Returns the number of bytes that were noted but are no longer there.
    [[nodiscard]] std::uint64_t missing() const { return missing_; }

  private:
    using Key = std::pair<std::uint32_t, record::RankStream>;

    [[nodiscard]] bool wanted(const record::Piece& piece) const;
    [[nodiscard]] base::FileDescriptor open_own(const Key& key) const;
    [[nodiscard]] base::FileDescriptor open_source(const Key& key) const;
    [[nodiscard]] int own(const Key& key, bool fresh);
    [[nodiscard]] std::size_t read(const Key& key, std::uint64_t offset, std::size_t length);
    [[nodiscard]] base::Result<void> skip_to_tail(std::size_t lines);
    bool print(LogPrinter& printer, const Key& key, std::uint64_t from, std::uint64_t to);
    [[nodiscard]] base::Result<void> find_ends();

    record::JobFiles files_;
    std::filesystem::path logs_;
    std::string start_;
    std::vector<bool> ranks_;
    bool output_;
    bool error_;
    std::size_t next_piece_ = 0;
    bool from_the_begin_ = true;
    bool more_ = false;
    std::map<Key, std::uint64_t> done_;  // of each file; those before the first piece are not there
    std::map<Key, base::FileDescriptor> open_;
    std::string buffer_;
    std::uint64_t missing_ = 0;
};

// Reads what the chosen ranks have printed in an attempt, over all starts of an elastic job's
// ranks. Without an attempt, it begins with the newest and goes on with those that follow.
class JobLogReader {
  public:
    // Makes the printer for the ranks that are chosen.
    using MakePrinter =
        std::function<LogPrinter(const record::RankPlaces&, const std::vector<bool>& ranks)>;

    JobLogReader(record::JobFiles files, std::filesystem::path logs, LogChoice choice,
                 std::optional<int> attempt, MakePrinter make_printer);

    // Returns the chosen ranks, each with the node of the start from which it is printed first;
    // nothing if the ranks have not been started.
    [[nodiscard]] base::Result<std::optional<std::map<int, std::string>>> ranks() const;

    enum class Found { nothing_new, something_new, more, stopped };
    // Prints what has come since the last call. `ended` means that nothing more can come. Call it
    // again at once as long as there is more.
    [[nodiscard]] base::Result<Found> pump(bool ended);
    // Whether the ranks of the attempt have been started.
    [[nodiscard]] bool started() const { return reader_.has_value(); }

  private:
    struct Start {
        std::string name;
        record::RankPlaces places;
    };
    [[nodiscard]] base::Result<std::vector<std::string>> starts_to_read() const;
    [[nodiscard]] base::Result<std::vector<Start>> first_starts() const;
    [[nodiscard]] base::Result<std::vector<Start>> starts() const;
    [[nodiscard]] base::Result<void> open(const Start& start);
    [[nodiscard]] base::Result<void> close();

    record::JobFiles files_;
    std::filesystem::path logs_;
    LogChoice choice_;
    std::optional<int> attempt_;
    MakePrinter make_printer_;
    std::string start_;  // that is being read; empty: none yet
    std::optional<StartReader> reader_;
    std::optional<LogPrinter> printer_;
};

}  // namespace batchai::status

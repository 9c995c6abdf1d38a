// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/job_logs.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "record/attempt.hpp"
#include "slurm/hostlist.hpp"
#include "status/output_directory.hpp"

namespace batchai::status {

using record::Piece;
using record::RankStream;

base::Result<std::vector<int>> rank_list(std::string_view text) {
    const auto wrong = [&] {
        return base::fail(fmt::format("\"{}\" is not a list of ranks", text), "--rank",
                          "write it like 0,3-5", base::ExitCode::usage);
    };
    // Slurm's host lists have such lists in brackets.
    if (text.empty() || text.find_first_not_of("0123456789,-") != std::string_view::npos)
        return wrong();
    const auto words = slurm::expand_hostlist(fmt::format("[{}]", text));
    if (!words) return wrong();
    std::vector<int> ranks;
    for (const std::string& word : *words) {
        const auto rank = base::number_in<int>(word);
        if (!rank) return wrong();
        ranks.push_back(*rank);
    }
    return ranks;
}

base::Result<base::Time> time_since(std::string_view text, base::Time now) {
    if (const auto time = base::from_iso8601(text)) return *time;
    constexpr std::array<std::pair<char, std::chrono::seconds>, 4> units{
        {{'s', std::chrono::seconds(1)},
         {'m', std::chrono::minutes(1)},
         {'h', std::chrono::hours(1)},
         {'d', std::chrono::hours(24)}}};
    const auto unit = std::find_if(units.begin(), units.end(), [&](const auto& each) {
        return !text.empty() && text.back() == each.first;
    });
    if (unit != units.end()) {
        const auto count = base::number_in<std::uint32_t>(text.substr(0, text.size() - 1));
        if (count) return now - *count * unit->second;
    }
    return base::fail(
        fmt::format("\"{}\" is not a time", text), "--since",
        "write how long ago it was, such as 90s, 10m, 2h or 1d, or a time in UTC, such "
        "as 2018-06-21T17:15:18",
        base::ExitCode::usage);
}

base::Result<void> check_choice(const std::vector<record::RankPlaces>& starts,
                                const LogChoice& choice) {
    std::size_t count = 0;
    std::vector<std::string> nodes;
    bool any = false;
    for (const record::RankPlaces& places : starts) {
        count = std::max(count, places.nodes.size());
        for (const std::string& node : places.nodes) {
            if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
        }
        const std::vector<bool> chosen = chosen_ranks(places, choice);
        any = any || std::find(chosen.begin(), chosen.end(), true) != chosen.end();
    }
    for (const int rank : choice.ranks.value_or(std::vector<int>())) {
        if (static_cast<std::size_t>(rank) >= count)
            return base::fail(fmt::format("the job has no rank {}", rank), "--rank",
                              count == 1 ? std::string("its only rank is 0")
                                         : fmt::format("its ranks are 0 to {}", count - 1),
                              base::ExitCode::not_found);
    }
    const bool unknown = std::find(nodes.begin(), nodes.end(), "") != nodes.end();
    if (unknown && !any && !choice.nodes.empty())
        return base::fail(
            "Slurm was given a --distribution of the ranks over the nodes with which "
            "it is not known where each rank runs",
            "--node", "choose ranks with --rank", base::ExitCode::not_found);
    for (const std::string& node : choice.nodes) {
        if (std::find(nodes.begin(), nodes.end(), node) == nodes.end())
            return base::fail(fmt::format("the job has no rank on a node {}", node), "--node",
                              fmt::format("its ranks are on {}", fmt::join(nodes, ", ")),
                              base::ExitCode::not_found);
    }
    if (!any)
        return base::fail("none of these ranks is on these nodes", "--rank and --node",
                          "leave one of the two out", base::ExitCode::not_found);
    return {};
}

std::string name_of_rank(const std::string& node, std::size_t rank) {
    return node.empty() ? std::to_string(rank) : fmt::format("{}:{}", node, rank);
}

std::vector<bool> chosen_ranks(const record::RankPlaces& places, const LogChoice& choice) {
    std::vector<bool> chosen(places.nodes.size(), !choice.ranks);
    for (const int rank : choice.ranks.value_or(std::vector<int>())) {
        if (static_cast<std::size_t>(rank) < chosen.size())
            chosen[static_cast<std::size_t>(rank)] = true;
    }
    if (choice.nodes.empty()) return chosen;
    for (std::size_t rank = 0; rank < chosen.size(); ++rank) {
        if (std::find(choice.nodes.begin(), choice.nodes.end(), places.nodes[rank]) ==
            choice.nodes.end())
            chosen[rank] = false;
    }
    return chosen;
}

namespace {

// Small enough to stay in the cache of a core until it is written.
constexpr std::size_t enough_to_print = 128UL << 10U;

}  // namespace

bool LogPrinter::print(std::uint32_t rank, RankStream stream, std::string_view bytes) {
    if (bytes.empty()) return !stopped_;
    if (prefixes_.empty()) {
        if (waiting_.size() + bytes.size() > enough_to_print && !flush()) return false;
        if (bytes.size() > enough_to_print) return !(stopped_ = stopped_ || !sink_(bytes));
        waiting_ += bytes;
        return !stopped_;
    }
    const std::pair source(rank, stream);
    if (last_ != source && !end_line()) return false;
    last_ = source;
    while (!bytes.empty()) {
        const std::size_t length = std::min(bytes.size(), bytes.find_first_of("\r\n"));
        const bool has_end = length < bytes.size();
        const bool ends_line = has_end && bytes[length] == '\n';
        if ((length > 0 && !marked_) || (ends_line && !line_marked_)) {
            waiting_ += prefixes_[rank];
            marked_ = true;
            line_marked_ = true;
        }
        waiting_.append(bytes.data(), length + (has_end ? 1 : 0));
        bytes.remove_prefix(length + (has_end ? 1 : 0));
        in_line_ = !ends_line;
        marked_ = marked_ && !has_end;
        line_marked_ = line_marked_ && !ends_line;
        if (waiting_.size() > enough_to_print && !flush()) return false;
    }
    return !stopped_;
}

bool LogPrinter::end_line() {
    if (in_line_ && !prefixes_.empty()) waiting_ += '\n';
    in_line_ = false;
    marked_ = false;
    line_marked_ = false;
    return !stopped_;
}

bool LogPrinter::flush() {
    if (!waiting_.empty() && !stopped_) stopped_ = !sink_(waiting_);
    waiting_.clear();
    return !stopped_;
}

namespace {

constexpr std::size_t pieces_at_once = 4096;
// What one read of a rank's file may take.
constexpr std::size_t longest_read = 128UL << 10U;
// `batchai run` makes no longer ones.
constexpr std::size_t longest_piece = 1UL << 20U;
// A job may have more ranks than a process may have open files.
constexpr std::size_t most_open_logs = 256;
// What is printed before the caller may look at other things, such as Ctrl-C.
constexpr std::uint64_t enough_at_once = 16UL << 20U;

std::uint64_t size_of(const base::FileDescriptor& file) {
    struct stat status {};
    const bool regular = file.valid() && fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
    return regular ? static_cast<std::uint64_t>(status.st_size) : 0;
}

// Fills the buffer from the file, as far as there are bytes.
std::size_t read_at(int file, char* buffer, std::size_t length, std::uint64_t offset) {
    std::size_t done = 0;
    while (file >= 0 && done < length) {
        const ssize_t count =
            pread(file, buffer + done, length - done, static_cast<off_t>(offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        done += static_cast<std::size_t>(count);
    }
    return done;
}

}  // namespace

StartReader::StartReader(record::JobFiles files, std::filesystem::path logs, std::string start,
                         std::vector<bool> ranks, const LogChoice& choice)
    : files_(std::move(files)),
      logs_(std::move(logs)),
      start_(std::move(start)),
      ranks_(std::move(ranks)),
      output_(choice.output),
      error_(choice.error) {}

bool StartReader::wanted(const Piece& piece) const {
    return piece.rank < ranks_.size() && ranks_[piece.rank] &&
           (piece.stream == RankStream::output ? output_ : error_);
}

base::FileDescriptor StartReader::open_own(const Key& key) const {
    if (logs_.empty()) return {};
    auto file = open_below(logs_, record::rank_log(start_, key.second, std::to_string(key.first)),
                           O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return file ? std::move(*file) : base::FileDescriptor();
}

base::FileDescriptor StartReader::open_source(const Key& key) const {
    const std::string rank = std::to_string(key.first);
    const auto path = key.second == RankStream::output ? files_.rank_output(start_, rank)
                                                       : files_.rank_error(start_, rank);
    return base::FileDescriptor(
        ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

int StartReader::own(const Key& key, bool fresh) {
    const auto found = open_.find(key);
    if (found != open_.end() && !fresh) return found->second.get();
    if (found == open_.end() && open_.size() >= most_open_logs) open_.clear();
    return (open_[key] = open_own(key)).get();
}

// Reads into the buffer and returns how many bytes there are. The file that srun has written has
// the same bytes, as long as it exists.
std::size_t StartReader::read(const Key& key, std::uint64_t offset, std::size_t length) {
    if (buffer_.size() < length) buffer_.resize(length);
    std::size_t done = read_at(own(key, false), buffer_.data(), length, offset);
    // NFS may not know yet that the file has grown.
    if (done < length)
        done += read_at(own(key, true), buffer_.data() + done, length - done, offset + done);
    if (done < length)
        done +=
            read_at(open_source(key).get(), buffer_.data() + done, length - done, offset + done);
    return done;
}

bool StartReader::print(LogPrinter& printer, const Key& key, std::uint64_t from, std::uint64_t to) {
    while (from < to) {
        const std::size_t length = std::min<std::uint64_t>(to - from, longest_read);
        const std::size_t got = read(key, from, length);
        if (!printer.print(key.first, key.second, {buffer_.data(), got})) return false;
        if (got < length) {
            missing_ += to - from - got;
            break;
        }
        from += length;
    }
    return true;
}

base::Result<void> StartReader::skip(const LogChoice& choice) {
    if (choice.since) {
        next_piece_ = TRY(record::PieceReader(files_, start_).first_since(*choice.since));
        from_the_begin_ = false;
    }
    if (choice.tail) TRY(skip_to_tail(*choice.tail));
    return {};
}

base::Result<void> StartReader::skip_to_tail(std::size_t lines) {
    const record::PieceReader pieces(files_, start_);
    const std::size_t first = next_piece_;
    from_the_begin_ = false;
    next_piece_ = pieces.size();
    if (lines == 0) return {};
    std::size_t newlines = 0;
    bool last = true;
    while (next_piece_ > first) {
        const std::size_t begin =
            std::max(first, next_piece_ - std::min(next_piece_, pieces_at_once));
        const std::vector<Piece> page = TRY(pieces.read(begin, next_piece_ - begin));
        for (auto piece = page.rbegin(); piece != page.rend(); ++piece) {
            --next_piece_;
            if (!wanted(*piece)) continue;
            const Key key(piece->rank, piece->stream);
            const std::size_t got =
                read(key, piece->offset, std::min<std::size_t>(piece->length, longest_piece));
            // The newline at the very end ends the last line.
            std::string_view bytes(buffer_.data(), got);
            if (last && bytes.ends_with('\n')) bytes.remove_suffix(1);
            last = false;
            while (true) {
                const std::size_t newline = bytes.rfind('\n');
                if (newline == std::string_view::npos) break;
                bytes = bytes.substr(0, newline);
                if (++newlines < lines) continue;
                done_[key] = piece->offset + newline + 1;
                return {};
            }
        }
        if (page.empty()) break;
    }
    return {};
}

base::Result<bool> StartReader::pump(LogPrinter& printer) {
    const record::PieceReader pieces(files_, start_);
    bool found = false;
    std::uint64_t printed = 0;
    more_ = false;
    while (!more_) {
        const std::vector<Piece> page = TRY(pieces.read(next_piece_, pieces_at_once));
        if (page.empty()) break;
        for (const Piece& piece : page) {
            ++next_piece_;
            if (!wanted(piece)) continue;
            found = true;
            const Key key(piece.rank, piece.stream);
            const auto known = done_.find(key);
            std::uint64_t from = from_the_begin_ ? 0 : piece.offset;
            if (known != done_.end()) from = known->second;
            const std::uint64_t to = piece.offset + piece.length;
            done_[key] = std::max(from, to);
            if (!print(printer, key, from, to)) return found;
            printed += piece.length;
            more_ = printed > enough_at_once;
            if (more_) break;
        }
    }
    return printer.flush() && found;
}

// Learns from all pieces where each file's noted part ends, but for the files that are known.
base::Result<void> StartReader::find_ends() {
    std::map<Key, std::uint64_t> ends;
    const record::PieceReader pieces(files_, start_);
    for (std::size_t next = 0; next < pieces.size();) {
        const std::vector<Piece> page = TRY(pieces.read(next, pieces_at_once));
        if (page.empty()) break;
        next += page.size();
        for (const Piece& piece : page)
            ends[{piece.rank, piece.stream}] = piece.offset + piece.length;
    }
    done_.merge(ends);
    from_the_begin_ = true;
    return {};
}

base::Result<void> StartReader::rest(LogPrinter& printer) {
    if (!from_the_begin_) TRY(find_ends());
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        for (const RankStream stream : record::rank_streams) {
            if (!wanted({.rank = rank, .stream = stream})) continue;
            const Key key(rank, stream);
            const std::uint64_t size = std::max(size_of(open_own(key)), size_of(open_source(key)));
            const std::uint64_t from = done_[key];
            done_[key] = std::max(from, size);
            if (!print(printer, key, from, size)) return {};
        }
    }
    return {};
}

JobLogReader::JobLogReader(record::JobFiles files, std::filesystem::path logs, LogChoice choice,
                           std::optional<int> attempt, MakePrinter make_printer)
    : files_(std::move(files)),
      logs_(std::move(logs)),
      choice_(std::move(choice)),
      attempt_(attempt),
      make_printer_(std::move(make_printer)) {}

// Returns the names of the starts that have ranks and have not been read yet, in order. Without a
// wish for an attempt these are the newest, and those that follow the one that is being read.
base::Result<std::vector<std::string>> JobLogReader::starts_to_read() const {
    std::vector<std::string> out;
    bool read = !started();
    const auto add = [&](const std::string& start) {
        std::error_code ignored;
        if (read && std::filesystem::exists(files_.rank_places(start), ignored))
            out.push_back(start);
        read = read || start == start_;
    };
    for (const record::Attempt& attempt : TRY(record::all_attempts(files_))) {
        if (attempt_ && attempt.number != *attempt_) continue;
        const std::vector<std::string> earlier = std::exchange(out, {});
        const std::string number = std::to_string(attempt.number);
        add(number);
        for (std::size_t i = 1; i <= attempt.restarts.size(); ++i)
            add(fmt::format("{}-{}", number, i));
        if (started() || out.empty()) out.insert(out.begin(), earlier.begin(), earlier.end());
    }
    return out;
}

// Returns the starts with which reading begins, in order. The ranks that the user has named must be
// in one of them.
base::Result<std::vector<JobLogReader::Start>> JobLogReader::first_starts() const {
    std::vector<Start> out;
    std::vector<record::RankPlaces> places;
    for (const std::string& name : TRY(starts_to_read())) {
        places.push_back(TRY(record::read_rank_places(files_, name)));
        out.push_back({.name = name, .places = places.back()});
    }
    if (!out.empty()) TRY(check_choice(places, choice_));
    return out;
}

base::Result<std::optional<std::map<int, std::string>>> JobLogReader::ranks() const {
    std::vector<Start> starts = TRY(first_starts());
    if (starts.empty()) return std::nullopt;
    // A rank's tail is that of the last start that has the rank.
    if (choice_.tail) std::reverse(starts.begin(), starts.end());
    std::map<int, std::string> out;
    for (const Start& start : starts) {
        const std::vector<bool> chosen = chosen_ranks(start.places, choice_);
        for (std::size_t rank = 0; rank < chosen.size(); ++rank) {
            if (chosen[rank]) out.try_emplace(static_cast<int>(rank), start.places.nodes[rank]);
        }
    }
    return std::optional(std::move(out));
}

// Returns the starts to read now.
base::Result<std::vector<JobLogReader::Start>> JobLogReader::starts() const {
    std::vector<Start> out;
    if (started()) {
        for (const std::string& name : TRY(starts_to_read()))
            out.push_back({.name = name, .places = TRY(record::read_rank_places(files_, name))});
        return out;
    }
    out = TRY(first_starts());
    if (!choice_.tail) return out;
    const auto last = std::find_if(out.rbegin(), out.rend(), [&](const Start& start) {
        const std::vector<bool> chosen = chosen_ranks(start.places, choice_);
        return std::find(chosen.begin(), chosen.end(), true) != chosen.end();
    });
    if (last == out.rend()) return out;
    return std::vector<Start>{*last};
}

base::Result<void> JobLogReader::open(const Start& start) {
    std::vector<bool> ranks = chosen_ranks(start.places, choice_);
    const bool again = started();
    printer_ = make_printer_(start.places, ranks);
    reader_.emplace(files_, logs_, start.name, std::move(ranks), choice_);
    start_ = start.name;
    if (!again) return reader_->skip(choice_);
    cli::say(fmt::format("the ranks were started again; their files are in {}",
                         record::rank_log_directory(start.name)));
    return {};
}

base::Result<void> JobLogReader::close() {
    if (!reader_) return {};
    do {
        TRY(reader_->pump(*printer_));
    } while (reader_->more() && printer_->flush());
    TRY(reader_->rest(*printer_));
    printer_->end_line();
    if (reader_->missing() > 0)
        cli::warn(fmt::format("{} bytes that the ranks have printed are no longer in {}",
                              reader_->missing(),
                              (logs_ / record::rank_log_directory(start_)).string()));
    return {};
}

base::Result<JobLogReader::Found> JobLogReader::pump(bool ended) {
    bool found = false;
    if (started()) {
        found = TRY(reader_->pump(*printer_));
        if (!printer_->flush()) return Found::stopped;
        if (reader_->more()) return Found::more;
    }
    for (const Start& start : TRY(starts())) {
        TRY(close());
        if (printer_ && !printer_->flush()) return Found::stopped;
        TRY(open(start));
        found = TRY(reader_->pump(*printer_)) || found;
        if (!printer_->flush()) return Found::stopped;
        if (reader_->more()) return Found::more;
    }
    if (ended) {
        TRY(close());
        if (printer_ && !printer_->flush()) return Found::stopped;
    }
    return found ? Found::something_new : Found::nothing_new;
}

}  // namespace batchai::status

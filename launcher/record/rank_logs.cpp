// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/rank_logs.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <tuple>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/record.hpp"
#include "base/text.hpp"

namespace batchai::record {

namespace {

constexpr std::string_view ranks_schema = "batchai-ranks/v1";

}  // namespace

std::string rank_log_directory(std::string_view start) {
    return fmt::format("ranks/{}", start);
}

std::string rank_log(std::string_view start, RankStream stream, std::string_view rank) {
    return fmt::format("{}/{}-{}.txt", rank_log_directory(start),
                       stream == RankStream::output ? "stdout" : "stderr", rank);
}

namespace {

// Returns how many neighbouring ranks the distribution places on a node before it goes on with the
// next node, or nothing if that is unknown. 0 means that no rank comes back to an earlier node.
std::optional<std::size_t> ranks_in_a_row(std::string_view distribution) {
    const std::string text = base::lower(distribution);
    // "pack" fills the nodes, however many CPUs they have. "nopack" is what happens without it.
    if (text.ends_with(",pack")) return std::nullopt;
    // What follows the colon is about sockets and cores.
    const std::string_view over_nodes = std::string_view(text).substr(0, text.find_first_of(":,"));
    if (over_nodes.empty() || over_nodes == "*" || over_nodes == "block") return 0;
    if (over_nodes == "cyclic") return 1;
    constexpr std::string_view plane = "plane=";
    if (!over_nodes.starts_with(plane)) return std::nullopt;
    const auto size = base::number_in<std::uint16_t>(over_nodes.substr(plane.size()));
    if (!size || *size == 0) return std::nullopt;
    return *size;
}

}  // namespace

RankPlaces places_of_ranks(const std::vector<std::string>& nodes, int ranks,
                           std::string_view distribution) {
    RankPlaces out;
    const auto wanted = static_cast<std::size_t>(ranks);
    const auto in_a_row = ranks_in_a_row(distribution);
    if (!in_a_row && nodes.size() > 1) {
        out.nodes.resize(wanted);
    } else if (in_a_row.value_or(0) > 0) {
        for (std::size_t rank = 0; rank < wanted; ++rank)
            out.nodes.push_back(nodes[rank / *in_a_row % nodes.size()]);
    } else {
        for (std::size_t i = 0; i < nodes.size(); ++i)
            out.nodes.insert(out.nodes.end(),
                             wanted / nodes.size() + (i < wanted % nodes.size() ? 1 : 0), nodes[i]);
    }
    return out;
}

base::Result<void> write_rank_places(const JobFiles& files, std::string_view start,
                                     const RankPlaces& places) {
    return base::write_atomically(files.rank_places(start), base::to_record(places, ranks_schema));
}

base::Result<RankPlaces> read_rank_places(const JobFiles& files, std::string_view start) {
    const std::string path = files.rank_places(start).string();
    return base::from_record<RankPlaces>(TRY(base::read_file(path)), ranks_schema)
        .map_error([&](base::Error fault) {
            fault.what = "the record of the ranks is damaged: " + fault.what;
            fault.where = path;
            return fault;
        });
}

namespace {

// The last four bytes have the rank and, in the lowest bit, the stream.
constexpr std::uint32_t greatest_rank = std::numeric_limits<std::uint32_t>::max() >> 1U;

template <typename Number>
void put(char*& to, Number number) {
    for (std::size_t i = 0; i < sizeof number; ++i)
        *to++ = static_cast<char>(static_cast<unsigned char>(number >> (8U * i)));
}

template <typename Number>
Number little_endian(const char*& from) {
    Number number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i)
        number |= static_cast<Number>(static_cast<unsigned char>(*from++)) << (8U * i);
    return number;
}

}  // namespace

std::array<char, piece_bytes> encode(const Piece& piece) {
    std::array<char, piece_bytes> bytes{};
    char* to = bytes.data();
    put(to, static_cast<std::uint64_t>(piece.time.time_since_epoch().count()));
    put(to, piece.offset);
    put(to, piece.length);
    put(to, (std::min(piece.rank, greatest_rank) << 1U) |
                (piece.stream == RankStream::error ? 1U : 0U));
    return bytes;
}

Piece decode_piece(const std::array<char, piece_bytes>& bytes) {
    const char* from = bytes.data();
    Piece piece;
    piece.time = base::Time(
        std::chrono::microseconds(static_cast<std::int64_t>(little_endian<std::uint64_t>(from))));
    piece.offset = little_endian<std::uint64_t>(from);
    piece.length = little_endian<std::uint32_t>(from);
    const auto source = little_endian<std::uint32_t>(from);
    piece.rank = source >> 1U;
    piece.stream = (source & 1U) != 0 ? RankStream::error : RankStream::output;
    return piece;
}

void PieceWriter::add(std::uint32_t rank, RankStream stream, std::uint64_t offset,
                      std::size_t length) {
    constexpr std::size_t limit = 4UL << 20U;
    if (unwritten_.size() >= limit) return;
    // The clock may be set back, but the times in the file must not decrease.
    last_ = std::max(last_, base::now());
    const auto bytes = encode({.time = last_,
                               .offset = offset,
                               .length = static_cast<std::uint32_t>(length),
                               .rank = rank,
                               .stream = stream});
    unwritten_.append(bytes.data(), bytes.size());
}

void PieceWriter::flush() {
    if (unwritten_.empty()) return;
    const base::FileDescriptor file(open(
        path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    struct stat before {};
    if (!file.valid() || fstat(file.get(), &before) != 0) return;
    // A disk that was full may have taken a part of a piece, which would shift all that follow.
    const auto whole = before.st_size - before.st_size % static_cast<off_t>(piece_bytes);
    if (whole != before.st_size && ftruncate(file.get(), whole) != 0) return;
    const std::size_t written = base::write_until_error(file.get(), unwritten_);
    unwritten_.erase(0, written - written % piece_bytes);
}

PieceReader::PieceReader(const JobFiles& files, std::string_view start)
    : path_(files.rank_pieces(start).string()),
      file_(open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
    struct stat status {};
    if (file_.valid() && fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode))
        size_ = static_cast<std::size_t>(status.st_size) / piece_bytes;
}

base::Result<std::vector<Piece>> PieceReader::read(std::size_t first, std::size_t most) const {
    std::vector<Piece> pieces;
    if (first >= size_) return pieces;
    std::string bytes(std::min(most, size_ - first) * piece_bytes, '\0');
    const ssize_t count =
        pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(first * piece_bytes));
    if (count < 0) return base::system_error("read", path_);
    std::array<char, piece_bytes> one{};
    for (std::size_t at = 0; at + piece_bytes <= static_cast<std::size_t>(count);
         at += piece_bytes) {
        std::copy_n(bytes.data() + at, piece_bytes, one.data());
        pieces.push_back(decode_piece(one));
    }
    return pieces;
}

base::Result<std::size_t> PieceReader::first_since(base::Time time) const {
    std::size_t low = 0;
    std::size_t high = size_;
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        const auto piece = TRY(read(middle, 1));
        if (piece.empty() || piece.front().time >= time)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

}  // namespace batchai::record

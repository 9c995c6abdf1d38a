// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/record.hpp"
#include "base/timestamp.hpp"
#include "record/job_files.hpp"

// What `batchai run` notes about the output of the ranks, so that `job logs` can say on which node
// a rank runs, and in which order the ranks have printed. A `start` is named as in JobFiles.
namespace batchai::record {

enum class RankStream : std::uint8_t { output, error };
inline constexpr std::array rank_streams{RankStream::output, RankStream::error};

// Returns the name, below the directory of the job's logs, of the directory that has a file for
// each stream of each rank: "ranks/1". A requeued job has one for each attempt, and an elastic job
// one for each start of its ranks.
[[nodiscard]] std::string rank_log_directory(std::string_view start);
// Returns the name of such a file: "ranks/1/stdout-0.txt". The file of a rank that has printed
// nothing does not exist. `rank` is a number, or "%t" as in the names of a plan's step.
[[nodiscard]] std::string rank_log(std::string_view start, RankStream stream,
                                   std::string_view rank);

// Where the ranks of a start run.
struct RankPlaces {
    std::vector<std::string> nodes;  // of each rank; "" if unknown

    bool operator==(const RankPlaces&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("nodes", &RankPlaces::nodes)};
    }
};

// Returns the nodes of `ranks` ranks as srun places them. `distribution` is srun's option of this
// name, such as "cyclic", or empty. Without it, the ranks are placed in the order of the nodes, as
// evenly as possible, with the greater numbers of ranks on the first nodes. The nodes are unknown
// for a distribution that depends on more than this.
[[nodiscard]] RankPlaces places_of_ranks(const std::vector<std::string>& nodes, int ranks,
                                         std::string_view distribution);

[[nodiscard]] base::Result<void> write_rank_places(const JobFiles& files, std::string_view start,
                                                   const RankPlaces& places);
// An error is ExitCode::not_found if the ranks have not been started.
[[nodiscard]] base::Result<RankPlaces> read_rank_places(const JobFiles& files,
                                                        std::string_view start);

// A piece of what a rank has printed. `time` is when `batchai run` saw it, which is some time after
// it was printed. Where there are several ranks, a piece ends with the end of a line, unless that
// does not come for some time.
struct Piece {
    base::Time time;
    std::uint64_t offset = 0;  // in the rank's file
    std::uint32_t length = 0;
    std::uint32_t rank = 0;
    RankStream stream = RankStream::output;

    bool operator==(const Piece&) const = default;
};

// The file of pieces has them in the order of their times. All have the same size, so that a reader
// can look for a time, and can begin at the end.
inline constexpr std::size_t piece_bytes = 24;
[[nodiscard]] std::array<char, piece_bytes> encode(const Piece& piece);
[[nodiscard]] Piece decode_piece(const std::array<char, piece_bytes>& bytes);

// Appends to the file of pieces. Errors are ignored, because a full disk must not fail the job: a
// reader finds the bytes without a piece in the ranks' files.
class PieceWriter {
  public:
    explicit PieceWriter(std::string path) : path_(std::move(path)) {}

    void add(std::uint32_t rank, RankStream stream, std::uint64_t offset, std::size_t length);
    // Writes what has been added. Pieces that cannot be written are tried again later, as long as
    // there are not too many.
    void flush();

  private:
    std::string path_;
    std::string unwritten_;
    base::Time last_{};
};

// Reads the file of pieces, which may be growing. It is opened by the constructor, because NFS
// guarantees fresh contents only after a new open. A file that does not exist has no pieces.
class PieceReader {
  public:
    explicit PieceReader(const JobFiles& files, std::string_view start);

    [[nodiscard]] std::size_t size() const { return size_; }  // in pieces
    // Returns pieces from number `first` on, at most `most`.
    [[nodiscard]] base::Result<std::vector<Piece>> read(std::size_t first, std::size_t most) const;
    // Returns the number of the first piece that was seen at that time or later.
    [[nodiscard]] base::Result<std::size_t> first_since(base::Time time) const;

  private:
    std::string path_;
    base::FileDescriptor file_;
    std::size_t size_ = 0;
};

}  // namespace batchai::record

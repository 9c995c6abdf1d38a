// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "run/logs.hpp"

namespace batchai::run {

// Copies growing files into files of the logs. srun writes what each task prints to a separate
// file, so that a failure can be assigned to a rank, but users want one stderr.txt. Where there are
// several sources, a line of up to 1 MiB is never torn in the file that they share, and finish()
// copies an unfinished last line. A single source is copied byte by byte.
//
// A program can truncate the file into which it prints, as the shell's "> /dev/stdout" does. The
// file is then copied from its new begin. What had been seen before is not lost, but what a task
// prints between the last poll() and the truncation is.
class LineMerger {
  public:
    // The source need not exist yet. The targets are names in the logs. Sources may share a target;
    // `own` is a further target for the bytes of this source alone, or empty.
    struct Source {
        std::string path;
        std::string target;
        std::string own{};
    };
    // Is told what has been copied to the `own` of a source: the number of the source, and where
    // the bytes are in that file.
    using Noted = std::function<void(std::size_t source, std::uint64_t offset, std::size_t length)>;
    // Is told what a source has that it had not before, once, whether or not it can be copied. It
    // gets no bytes if the source has grown by more than can be read before others are copied.
    using Seen = std::function<void(std::size_t source, std::string_view bytes)>;
    using Clock = std::chrono::steady_clock;

    // After this time, what there is of an unfinished line is copied to the `own` of its source, so
    // that a progress bar is seen while it grows.
    static constexpr std::chrono::milliseconds usual_patience{2000};

    // `logs` must outlive this object. Its files are open only while lines are copied, so that a
    // job with many ranks needs no more open files than one with few.
    LineMerger(const std::vector<Source>& sources, const LogDirectory& logs, Noted noted = {},
               std::chrono::milliseconds patience = usual_patience, Seen seen = {});

    // Copies the complete lines that have been added since the last call. Stops soon after `until`,
    // and the next call goes on with the next source, so that a rank that prints without end holds
    // up neither the others nor the caller. What could not be copied is tried again by the next
    // call. An error at one source does not stop the others; the last error is returned.
    [[nodiscard]] base::Result<void> poll(Clock::time_point until = Clock::time_point::max());
    // Copies everything that is left. Call after the writers have ended; a second call copies what
    // has come since. Makes the sources that do not exist. Unless this is an error, all bytes that
    // have been seen in the sources are in the logs.
    [[nodiscard]] base::Result<void> finish();
    // Returns the numbers of the sources that have been truncated.
    [[nodiscard]] std::vector<std::size_t> truncated() const;
    // Gives the sources that have been truncated all bytes of their `own` files. Call after
    // finish().
    [[nodiscard]] base::Result<void> restore_truncated() const;

  private:
    struct Copy {
        std::string name;       // in the logs
        std::size_t bytes = 0;  // of the source, that the file has
    };
    struct Growing {
        std::string path;
        Copy target;
        Copy own;                                // without a name: none
        std::optional<std::uint64_t> own_end{};  // of that file, once bytes have been copied to it
        std::size_t seen = 0;                    // bytes of the source that have been read
        std::size_t grown = 0;                   // its size, of which `seen_` was told
        std::string last_seen{};                 // the last of these bytes
        std::string held{};                      // the first of an unfinished line …
        std::size_t held_at = 0;                 // … and where it begins in the source
        std::size_t without_line = 0;            // size at which the rest had no complete line
        std::optional<Clock::time_point> unfinished_since{};  // of a line that `own` lacks
        bool truncated = false;

        [[nodiscard]] std::size_t copied() const {
            return own.name.empty() ? target.bytes : std::min(own.bytes, target.bytes);
        }
        void note_read(std::size_t from, std::string_view bytes, std::size_t complete);
    };
    [[nodiscard]] base::Result<void> copy(std::size_t number, bool last_time,
                                          Clock::time_point until);
    [[nodiscard]] base::Result<void> copy_from(int file, std::size_t size, std::size_t number,
                                               bool last_time, Clock::time_point until);
    [[nodiscard]] static bool is_another(const Growing& source, int file, std::size_t size,
                                         bool last_time);
    [[nodiscard]] base::Result<void> begin_again(std::size_t number, int file);
    [[nodiscard]] base::Result<void> append_to_target(Growing& source, std::string_view bytes);
    [[nodiscard]] base::Result<void> append_to_own(std::size_t number, std::string_view bytes);
    [[nodiscard]] base::Result<void> close_target();

    std::vector<Growing> sources_;
    const LogDirectory& logs_;
    Noted noted_;
    Seen seen_;
    std::chrono::milliseconds patience_;
    std::size_t next_ = 0;         // the source to begin with
    base::FileDescriptor target_;  // the file that was written last
    std::string target_name_;
    std::optional<base::Error> lost_;  // bytes that had been written or seen already
};

}  // namespace batchai::run

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

// The stream of tar(1): that of POSIX, with the long names of GNU and of pax. No files are touched
// here.
namespace batchai::visit {

inline constexpr std::size_t tar_block = 512;

enum class TarKind : std::uint8_t { file, directory, link, other };

struct TarEntry {
    std::string name;  // as the stream has it, without a slash at the end
    TarKind kind = TarKind::file;
    std::uint64_t size = 0;  // of a file's contents, which follow
    unsigned int mode = 0;   // the permissions of owner, group and others, and no more

    bool operator==(const TarEntry&) const = default;
};

// Takes a stream apart. Call next() until it needs more bytes.
class TarReader {
  public:
    void feed(std::string_view bytes);

    enum class Found {
        nothing,   // more bytes are needed
        entry,     // entry() is the next one
        contents,  // contents() are more bytes of the entry
        end,       // the stream is complete
    };
    [[nodiscard]] base::Result<Found> next();
    [[nodiscard]] const TarEntry& entry() const { return entry_; }
    [[nodiscard]] std::string_view contents() const { return contents_; }
    // Returns whether the contents of the last entry are complete.
    [[nodiscard]] bool is_between_entries() const { return left_ == 0; }

  private:
    [[nodiscard]] base::Result<Found> next_header();
    [[nodiscard]] base::Result<Found> read_header(std::string_view block);
    [[nodiscard]] base::Result<void> take_long(std::string_view text);
    [[nodiscard]] base::Result<void> take_pax(std::string_view text);

    std::string buffer_;
    std::size_t at_ = 0;
    TarEntry entry_;
    std::string_view contents_;
    std::uint64_t left_ = 0;     // of the contents of the entry
    std::uint64_t padding_ = 0;  // after them
    char long_type_ = 0;         // of a header that describes the next one, whose text is read
    std::uint64_t long_size_ = 0;
    std::optional<std::string> next_name_;
    std::optional<std::uint64_t> next_size_;
    int empty_blocks_ = 0;
};

}  // namespace batchai::visit

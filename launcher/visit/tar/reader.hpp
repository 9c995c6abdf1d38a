// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

struct archive;

// The stream of tar(1), as libarchive reads it. No files are touched here.
namespace batchai::visit {

enum class TarKind : std::uint8_t { file, directory, link, other };

struct TarEntry {
    std::string name;  // as the stream has it, without a slash at the end
    TarKind kind = TarKind::file;
    std::uint64_t size = 0;  // of a file's contents, which follow
    unsigned int mode = 0;   // the permissions of owner, group and others, and no more

    bool operator==(const TarEntry&) const = default;
};

class TarReader {
  public:
    // Returns the next bytes of the stream, which stay there until the next call. It has ended if
    // there are none.
    using Source = std::function<std::string_view()>;

    explicit TarReader(Source source);
    TarReader(const TarReader&) = delete;
    TarReader& operator=(const TarReader&) = delete;
    ~TarReader() = default;

    // Returns the next entry, or nothing at the end of the stream. It is an error if the stream is
    // not one of tar.
    [[nodiscard]] base::Result<std::optional<TarEntry>> next();

    struct Contents {
        std::string_view bytes;
        std::uint64_t at = 0;  // their place in the file; what is left out is zero
    };
    // Returns more of the contents of the entry, or nothing after the last.
    [[nodiscard]] base::Result<std::optional<Contents>> contents();

    // Returns whether the stream has ended without its end: in the contents of a file, or before
    // the two empty blocks that come last.
    [[nodiscard]] bool is_cut_off() const { return cut_off_; }

  private:
    struct Free {
        void operator()(archive* reader) const;
    };
    // Returns the error of a call that failed; none if the stream was only cut off.
    [[nodiscard]] base::Result<void> fault();

    std::uint64_t received_ = 0;
    Source source_;
    std::unique_ptr<archive, Free> archive_;
    bool cut_off_ = false;
};

}  // namespace batchai::visit

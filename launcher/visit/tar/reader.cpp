// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/tar/reader.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::visit {

namespace {

constexpr std::size_t longest_name = 65536;
constexpr std::uint64_t largest_size = std::uint64_t{1} << 60U;

struct Place {
    std::size_t at;
    std::size_t length;
};
constexpr Place name_place{0, 100};
constexpr Place mode_place{100, 8};
constexpr Place size_place{124, 12};
constexpr Place checksum_place{148, 8};
constexpr std::size_t type_at = 156;
constexpr Place magic_place{257, 5};
constexpr Place prefix_place{345, 155};

tl::unexpected<base::Error> damaged(const std::string& what) {
    return base::fail("what the node sends is not a tar archive: " + what);
}

std::string_view field(std::string_view block, Place place) {
    return block.substr(place.at, place.length);
}

std::string text_of(std::string_view bytes) {
    return std::string(bytes.substr(0, bytes.find('\0')));
}

// Octal digits, or a number in base 256 if the first bit is set.
std::optional<std::uint64_t> number_of(std::string_view bytes) {
    if ((static_cast<unsigned char>(bytes.front()) & 0x80U) != 0) {
        std::uint64_t number = static_cast<unsigned char>(bytes.front()) & 0x7FU;
        for (const char byte : bytes.substr(1)) {
            if (number > largest_size) return std::nullopt;
            number = (number << 8U) | static_cast<unsigned char>(byte);
        }
        return number;
    }
    const std::string digits = text_of(bytes);
    const std::string_view trimmed = base::trim(digits);
    return trimmed.empty() ? 0 : base::number_in<std::uint64_t>(trimmed, 8);
}

bool is_empty(std::string_view block) {
    return std::all_of(block.begin(), block.end(), [](char byte) { return byte == '\0'; });
}

bool has_right_checksum(std::string_view block) {
    const auto expected = number_of(field(block, checksum_place));
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < block.size(); ++i) {
        const bool of_checksum =
            i >= checksum_place.at && i < checksum_place.at + checksum_place.length;
        sum += of_checksum ? static_cast<unsigned char>(' ') : static_cast<unsigned char>(block[i]);
    }
    return expected == sum;
}

std::uint64_t padding_after(std::uint64_t size) {
    return (tar_block - size % tar_block) % tar_block;
}

TarKind kind_of(char type) {
    switch (type) {
        case '0':
        case '\0':
        case '7':
            return TarKind::file;
        case '5':
            return TarKind::directory;
        case '1':
        case '2':
            return TarKind::link;
        default:
            return TarKind::other;
    }
}

std::string without_slashes(std::string name) {
    while (name.size() > 1 && name.ends_with('/'))
        name.pop_back();
    return name;
}

}  // namespace

void TarReader::feed(std::string_view bytes) {
    buffer_.erase(0, at_);
    at_ = 0;
    buffer_ += bytes;
}

base::Result<TarReader::Found> TarReader::next() {
    if (left_ > 0) {
        const std::size_t there = buffer_.size() - at_;
        if (there == 0) return Found::nothing;
        const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(left_, there));
        contents_ = std::string_view(buffer_).substr(at_, length);
        at_ += length;
        left_ -= length;
        return Found::contents;
    }
    if (padding_ > 0) {
        const auto length =
            static_cast<std::size_t>(std::min<std::uint64_t>(padding_, buffer_.size() - at_));
        at_ += length;
        padding_ -= length;
        if (padding_ > 0) return Found::nothing;
    }
    return next_header();
}

base::Result<TarReader::Found> TarReader::next_header() {
    while (true) {
        const std::string_view rest = std::string_view(buffer_).substr(at_);
        if (long_type_ != 0) {
            const std::uint64_t whole = long_size_ + padding_after(long_size_);
            if (rest.size() < whole) return Found::nothing;
            TRY(take_long(rest.substr(0, static_cast<std::size_t>(long_size_))));
            at_ += static_cast<std::size_t>(whole);
            long_type_ = 0;
            continue;
        }
        if (rest.size() < tar_block) return Found::nothing;
        const std::string_view block = rest.substr(0, tar_block);
        at_ += tar_block;
        if (is_empty(block)) {
            if (++empty_blocks_ == 2) return Found::end;
            continue;
        }
        if (empty_blocks_ != 0) return damaged("something follows its end");
        const auto found = TRY(read_header(block));
        if (found == Found::entry) return found;
    }
}

base::Result<TarReader::Found> TarReader::read_header(std::string_view block) {
    if (!has_right_checksum(block)) return damaged("a header has the wrong checksum");
    const auto size = number_of(field(block, size_place));
    if (!size || *size > largest_size) return damaged("a header has an impossible size");
    const char type = block[type_at];
    if (type == 'L' || type == 'K' || type == 'x' || type == 'g') {
        if (*size > longest_name) return damaged("a name is too long");
        long_type_ = type;
        long_size_ = *size;
        return Found::nothing;
    }
    std::string name = text_of(field(block, name_place));
    const std::string prefix = text_of(field(block, prefix_place));
    // The old format of GNU has other things in the place of the prefix, and "ustar " as its magic.
    const bool is_ustar = field(block, magic_place) == "ustar" && block[magic_place.at + 5] == '\0';
    if (is_ustar && !prefix.empty()) name = prefix + '/' + name;
    entry_ = {
        .name = without_slashes(next_name_.value_or(name)),
        .kind = kind_of(type),
        .size = 0,
        .mode = static_cast<unsigned int>(number_of(field(block, mode_place)).value_or(0) & 0777U)};
    // In the oldest format, a directory is a file whose name ends with a slash.
    if (entry_.kind == TarKind::file && next_name_.value_or(name).ends_with('/'))
        entry_.kind = TarKind::directory;
    const std::uint64_t bytes = next_size_.value_or(*size);
    next_name_.reset();
    next_size_.reset();
    if (entry_.kind == TarKind::file) entry_.size = bytes;
    // Links and directories have no contents, whatever their size says.
    if (entry_.kind == TarKind::file || entry_.kind == TarKind::other) {
        left_ = entry_.kind == TarKind::file ? bytes : 0;
        padding_ =
            entry_.kind == TarKind::file ? padding_after(bytes) : bytes + padding_after(bytes);
    }
    return Found::entry;
}

base::Result<void> TarReader::take_long(std::string_view text) {
    if (long_type_ == 'L') next_name_ = text_of(text);
    if (long_type_ == 'x') return take_pax(text);
    return {};
}

// Lines "LENGTH KEY=VALUE\n", where LENGTH counts the whole line.
base::Result<void> TarReader::take_pax(std::string_view text) {
    while (!text.empty()) {
        const std::size_t space = text.find(' ');
        const auto length = base::number_in<std::size_t>(text.substr(0, space));
        if (space == std::string_view::npos || !length || *length > text.size() ||
            *length < space + 2 || text[*length - 1] != '\n')
            return damaged("an extended header cannot be read");
        const std::string_view line = text.substr(space + 1, *length - space - 2);
        text.remove_prefix(*length);
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos) return damaged("an extended header has no value");
        const std::string_view value = line.substr(equals + 1);
        if (line.substr(0, equals) == "path") next_name_ = std::string(value);
        if (line.substr(0, equals) != "size") continue;
        next_size_ = base::number_in<std::uint64_t>(value);
        if (!next_size_ || *next_size_ > largest_size)
            return damaged("a header has an impossible size");
    }
    return {};
}

}  // namespace batchai::visit

// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/tar/reader.hpp"

#include <utility>

#include <archive.h>
#include <archive_entry.h>

namespace batchai::visit {

namespace {

constexpr std::uint64_t tar_block = 512;
// Two empty blocks end a stream.
constexpr la_int64_t length_of_end = 1024;

la_ssize_t read_more(archive* /*reader*/, void* source, const void** bytes) noexcept {
    const std::string_view more = (*static_cast<TarReader::Source*>(source))();
    *bytes = more.data();
    return static_cast<la_ssize_t>(more.size());
}

bool is_fine(int status) {
    // A warning is of a time, an owner or a name in a character set that the locale lacks, which
    // keeps its bytes.
    return status == ARCHIVE_OK || status == ARCHIVE_WARN;
}

TarKind kind_of(archive_entry* entry) {
    if (archive_entry_hardlink(entry) != nullptr) return TarKind::link;
    switch (archive_entry_filetype(entry)) {
        case AE_IFREG:
            return TarKind::file;
        case AE_IFDIR:
            return TarKind::directory;
        case AE_IFLNK:
            return TarKind::link;
        default:
            return TarKind::other;
    }
}

std::string name_of(archive_entry* entry) {
    const char* const text = archive_entry_pathname(entry);
    std::string name = text == nullptr ? "" : text;
    while (name.size() > 1 && name.ends_with('/'))
        name.pop_back();
    return name;
}

}  // namespace

void TarReader::Free::operator()(archive* reader) const {
    archive_read_free(reader);
}

TarReader::TarReader(Source source)
    : source_([this, source = std::move(source)] {
          const std::string_view more = source();
          received_ += more.size();
          return more;
      }),
      archive_(archive_read_new()) {
    archive_read_support_format_tar(archive_.get());
    archive_read_support_format_empty(archive_.get());
    // A failure is told again by next().
    archive_read_open(archive_.get(), &source_, nullptr, read_more, nullptr);
}

base::Result<void> TarReader::fault() {
    const char* const said = archive_error_string(archive_.get());
    const std::string text = said == nullptr ? "it cannot be read" : said;
    // libarchive recognizes the format by the first header.
    cut_off_ = text.starts_with("Truncated") || received_ < tar_block;
    if (cut_off_) return {};
    return base::fail("what the node sends is not a tar archive: " + text);
}

base::Result<std::optional<TarEntry>> TarReader::next() {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(archive_.get(), &entry);
    if (status == ARCHIVE_EOF) {
        cut_off_ = archive_filter_bytes(archive_.get(), 0) <
                   archive_read_header_position(archive_.get()) + length_of_end;
        return std::nullopt;
    }
    if (!is_fine(status)) {
        TRY(fault());
        return std::nullopt;
    }
    TarEntry out{.name = name_of(entry),
                 .kind = kind_of(entry),
                 .size = 0,
                 .mode = static_cast<unsigned int>(archive_entry_perm(entry) & 0777U)};
    if (out.kind == TarKind::file) out.size = static_cast<std::uint64_t>(archive_entry_size(entry));
    return out;
}

base::Result<std::optional<TarReader::Contents>> TarReader::contents() {
    const void* bytes = nullptr;
    std::size_t length = 0;
    la_int64_t at = 0;
    const int status = archive_read_data_block(archive_.get(), &bytes, &length, &at);
    if (status == ARCHIVE_EOF) return std::nullopt;
    if (!is_fine(status)) {
        TRY(fault());
        return std::nullopt;
    }
    return Contents{.bytes = {static_cast<const char*>(bytes), length},
                    .at = static_cast<std::uint64_t>(at)};
}

}  // namespace batchai::visit

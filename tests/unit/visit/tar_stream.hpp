// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include <archive.h>
#include <archive_entry.h>

// Parts of tar streams, as tar(1) writes them.
namespace batchai::visit {

inline la_ssize_t append_to(archive* /*writer*/, void* stream, const void* bytes,
                            std::size_t length) {
    static_cast<std::string*>(stream)->append(static_cast<const char*>(bytes), length);
    return static_cast<la_ssize_t>(length);
}

// Returns one entry without the end of a stream. Its contents may be shorter than its size; then
// nothing follows them.
inline std::string entry_of(int (*format)(archive*), const std::string& name, unsigned int kind,
                            unsigned int mode, std::string_view text, std::int64_t size) {
    std::string stream;
    archive* const writer = archive_write_new();
    format(writer);
    archive_write_set_bytes_per_block(writer, 0);
    archive_write_open(writer, &stream, nullptr, append_to, nullptr);
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_filetype(entry, kind);
    archive_entry_set_perm(entry, static_cast<mode_t>(mode));
    archive_entry_set_size(entry, size);
    archive_write_header(writer, entry);
    archive_write_data(writer, text.data(), text.size());
    if (size == static_cast<std::int64_t>(text.size())) archive_write_finish_entry(writer);
    archive_entry_free(entry);
    archive_write_fail(writer);
    archive_write_free(writer);
    return stream;
}

inline std::string file(const std::string& name, std::string_view text, unsigned int mode = 0644) {
    return entry_of(archive_write_set_format_gnutar, name, AE_IFREG, mode, text,
                    static_cast<std::int64_t>(text.size()));
}

inline std::string directory(const std::string& name, unsigned int mode = 0755) {
    return entry_of(archive_write_set_format_gnutar, name, AE_IFDIR, mode, {}, 0);
}

inline std::string tar_end() {
    return std::string(1024, '\0');
}

// Returns the entry with another type in its first header.
inline std::string with_type(std::string entry, char type) {
    entry[156] = type;
    unsigned int sum = 0;
    for (std::size_t i = 0; i < 512; ++i)
        sum += i >= 148 && i < 156 ? 32U : static_cast<unsigned char>(entry[i]);
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%06o", sum);
    std::copy(text.begin(), text.end(), entry.begin() + 148);
    return entry;
}

}  // namespace batchai::visit

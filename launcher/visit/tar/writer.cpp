// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/tar/writer.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace batchai::visit {

namespace {

constexpr std::size_t longest_short_name = 100;
// What 11 octal digits can say.
constexpr std::uint64_t largest_octal = (std::uint64_t{1} << 33U) - 1;

void put(std::string& block, std::size_t at, std::string_view text) {
    std::copy(text.begin(), text.end(), block.begin() + static_cast<std::ptrdiff_t>(at));
}

std::string size_text(std::uint64_t size) {
    if (size <= largest_octal) return fmt::format("{:011o}", size);
    // A number in base 256, as GNU, BSD and busybox read it.
    std::string bytes(12, '\0');
    for (std::size_t i = bytes.size(); i > 4; --i, size >>= 8U)
        bytes[i - 1] = static_cast<char>(size & 0xFFU);
    bytes[0] = static_cast<char>(0x80);
    return bytes;
}

std::string block_of(std::string_view name, char type, std::uint64_t size, unsigned int mode) {
    std::string block(tar_block, '\0');
    put(block, 0, name.substr(0, longest_short_name));
    put(block, 100, fmt::format("{:07o}", mode & 0777U));
    put(block, 108, "0000000");
    put(block, 116, "0000000");
    put(block, 124, size_text(size));
    put(block, 136, "00000000000");
    put(block, 148, "        ");
    block[156] = type;
    // The format of GNU, to which its long names belong.
    put(block, 257, "ustar  ");
    std::uint64_t sum = 0;
    for (const char byte : block)
        sum += static_cast<unsigned char>(byte);
    put(block, 148, fmt::format("{:06o}", sum));
    block[154] = '\0';
    return block;
}

}  // namespace

std::string tar_header(const TarEntry& entry) {
    const bool directory = entry.kind == TarKind::directory;
    const std::string name = directory ? entry.name + '/' : entry.name;
    std::string header;
    if (name.size() > longest_short_name) {
        const std::string text = name + '\0';
        header =
            block_of("././@LongLink", 'L', text.size(), 0644) + text + tar_padding(text.size());
    }
    return header + block_of(name, directory ? '5' : '0', directory ? 0 : entry.size, entry.mode);
}

std::string tar_padding(std::uint64_t size) {
    return std::string(static_cast<std::size_t>((tar_block - size % tar_block) % tar_block), '\0');
}

std::string tar_end() {
    return std::string(2 * tar_block, '\0');
}

}  // namespace batchai::visit

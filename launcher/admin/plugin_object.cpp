// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/plugin_object.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include <elf.h>
#include <fmt/format.h>

#include "base/file.hpp"

namespace batchai::admin {

namespace {

constexpr std::size_t object_limit = 256UL << 20U;
constexpr std::string_view wanted = "plugin_version";

// Copies the structure at byte `at`, if all of it is there.
template <typename T>
std::optional<T> piece(std::string_view bytes, std::size_t at) {
    if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
}

template <typename T>
std::vector<T> pieces(std::string_view bytes, std::size_t at, std::size_t count) {
    std::vector<T> out;
    for (std::size_t i = 0; i < count; ++i) {
        const auto next = piece<T>(bytes, at + i * sizeof(T));
        if (!next) break;
        out.push_back(*next);
    }
    return out;
}

std::string_view name_at(std::string_view names, std::size_t at) {
    if (at >= names.size()) return {};
    const std::string_view rest = names.substr(at);
    return rest.substr(0, rest.find('\0'));
}

std::string_view section_bytes(std::string_view bytes, const Elf64_Shdr& section) {
    if (section.sh_offset > bytes.size()) return {};
    return bytes.substr(section.sh_offset, section.sh_size);
}

// Returns the address of the variable in memory.
std::optional<std::size_t> address_of_variable(std::string_view bytes, const Elf64_Ehdr& header) {
    const auto sections = pieces<Elf64_Shdr>(bytes, header.e_shoff, header.e_shnum);
    for (const Elf64_Shdr& section : sections) {
        if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
        const std::string_view names = section_bytes(bytes, sections[section.sh_link]);
        const std::string_view table = section_bytes(bytes, section);
        for (const auto& symbol : pieces<Elf64_Sym>(table, 0, table.size() / sizeof(Elf64_Sym))) {
            if (symbol.st_shndx != SHN_UNDEF && name_at(names, symbol.st_name) == wanted)
                return symbol.st_value;
        }
    }
    return std::nullopt;
}

// Returns the place in the file of what the loader puts at an address.
std::optional<std::size_t> place_of(std::string_view bytes, const Elf64_Ehdr& header,
                                    std::size_t address) {
    for (const auto& segment : pieces<Elf64_Phdr>(bytes, header.e_phoff, header.e_phnum)) {
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
            address - segment.p_vaddr < segment.p_filesz)
            return segment.p_offset + (address - segment.p_vaddr);
    }
    return std::nullopt;
}

}  // namespace

base::Result<std::uint32_t> slurm_version_of_plugin(const std::string& path) {
    const std::string bytes = TRY(base::read_file(path, object_limit));
    const auto header = piece<Elf64_Ehdr>(bytes, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64)
        return base::fail("is not a 64-bit shared object", path);
    const auto address = address_of_variable(bytes, *header);
    const auto place = address ? place_of(bytes, *header, *address) : std::nullopt;
    const auto number = place ? piece<std::uint32_t>(bytes, *place) : std::nullopt;
    if (!number) return base::fail("is not a plugin of Slurm: it has no plugin_version", path);
    return *number;
}

std::string slurm_version_text(std::uint32_t number) {
    return fmt::format("{}.{:02}.{}", number >> 16U, number >> 8U & 0xFFU, number & 0xFFU);
}

}  // namespace batchai::admin

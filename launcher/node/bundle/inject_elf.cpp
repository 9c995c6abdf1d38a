// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/bundle/inject_elf.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

namespace batchai::node {

namespace {

// More than any real object has: a damaged one must not cost memory or time.
constexpr std::size_t most_bytes = 16UL << 20U;
constexpr std::size_t most_entries = 4096;
constexpr std::size_t longest_text = 4096;

// A file of which each part is read when it is needed: ours have a hundred megabytes of what
// debuggers want.
class Reader {
  public:
    explicit Reader(int descriptor) : descriptor_(descriptor) {}

    [[nodiscard]] std::optional<std::string> bytes(std::uint64_t offset, std::uint64_t size) const {
        if (size > most_bytes || offset > most_offset) return std::nullopt;
        std::string out(size, '\0');
        std::size_t length = 0;
        while (length < out.size()) {
            const ssize_t count = pread(descriptor_, out.data() + length, out.size() - length,
                                        static_cast<off_t>(offset + length));
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) return std::nullopt;
            length += static_cast<std::size_t>(count);
        }
        return out;
    }

  private:
    static constexpr std::uint64_t most_offset = 1ULL << 40U;
    int descriptor_;
};

template <typename T>
std::optional<T> item(std::string_view bytes, std::uint64_t offset) {
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
    T out;
    std::memcpy(&out, bytes.data() + offset, sizeof out);
    return out;
}

std::string text_at(std::string_view strings, std::uint64_t offset) {
    if (offset >= strings.size()) return {};
    const std::string_view rest = strings.substr(offset, longest_text);
    return std::string(rest.substr(0, rest.find('\0')));
}

// The dynamic section, and what is needed to understand it.
class Dynamic {
  public:
    Dynamic(const Reader& file, std::vector<Elf64_Phdr> segments)
        : file_(file), segments_(std::move(segments)) {}

    [[nodiscard]] bool load() {
        const Elf64_Phdr* const segment = first(PT_DYNAMIC);
        if (segment == nullptr) return false;
        const auto bytes = file_.bytes(segment->p_offset, segment->p_filesz);
        if (!bytes) return false;
        for (std::size_t i = 0; i < most_entries; ++i) {
            const auto entry = item<Elf64_Dyn>(*bytes, i * sizeof(Elf64_Dyn));
            if (!entry || entry->d_tag == DT_NULL) break;
            entries_.push_back(*entry);
        }
        const auto strings = at_address(value(DT_STRTAB), value(DT_STRSZ));
        if (strings) strings_ = *strings;
        return strings.has_value();
    }

    [[nodiscard]] const Elf64_Phdr* first(std::uint32_t type) const {
        const auto found =
            std::find_if(segments_.begin(), segments_.end(),
                         [&](const Elf64_Phdr& segment) { return segment.p_type == type; });
        return found == segments_.end() ? nullptr : &*found;
    }

    [[nodiscard]] std::vector<std::string> texts(std::int64_t tag) const {
        std::vector<std::string> out;
        for (const Elf64_Dyn& entry : entries_) {
            if (entry.d_tag == tag) out.push_back(text(entry.d_un.d_val));
        }
        return out;
    }

    [[nodiscard]] std::string text(std::uint64_t offset) const { return text_at(strings_, offset); }

    // From the address that an entry holds to the end of its segment.
    [[nodiscard]] std::optional<std::string> table(std::int64_t tag) const {
        return at_address(value(tag), 0);
    }

    [[nodiscard]] std::uint64_t value(std::int64_t tag) const {
        const auto found = std::find_if(entries_.begin(), entries_.end(),
                                        [&](const Elf64_Dyn& entry) { return entry.d_tag == tag; });
        return found == entries_.end() ? 0 : found->d_un.d_val;
    }

  private:
    // What is loaded there, as it is in the file. A size of 0: a bounded part of what follows.
    [[nodiscard]] std::optional<std::string> at_address(std::uint64_t address,
                                                        std::uint64_t size) const {
        constexpr std::uint64_t part = 256UL << 10U;
        for (const Elf64_Phdr& segment : segments_) {
            if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
                address - segment.p_vaddr >= segment.p_filesz)
                continue;
            const std::uint64_t inside = address - segment.p_vaddr;
            const std::uint64_t left = segment.p_filesz - inside;
            return file_.bytes(segment.p_offset + inside, size == 0 ? std::min(left, part) : size);
        }
        return std::nullopt;
    }

    const Reader& file_;
    std::vector<Elf64_Phdr> segments_;
    std::vector<Elf64_Dyn> entries_;
    std::string strings_;
};

void read_needed_versions(const Dynamic& dynamic, ElfObject& out) {
    const auto table = dynamic.table(DT_VERNEED);
    if (!table) return;
    std::uint64_t at = 0;
    std::size_t left = most_entries;
    for (std::uint64_t files = dynamic.value(DT_VERNEEDNUM); files > 0 && left > 0; --files) {
        --left;
        const auto file = item<Elf64_Verneed>(*table, at);
        if (!file) return;
        auto& versions = out.needed_versions[dynamic.text(file->vn_file)];
        std::uint64_t inner = at + file->vn_aux;
        for (unsigned int i = 0; i < file->vn_cnt && left > 0; ++i, --left) {
            const auto version = item<Elf64_Vernaux>(*table, inner);
            if (!version) return;
            // The loader does without a version that only weak symbols want.
            if ((version->vna_flags & VER_FLG_WEAK) == 0)
                versions.insert(dynamic.text(version->vna_name));
            if (version->vna_next == 0) break;
            inner += version->vna_next;
        }
        if (file->vn_next == 0) return;
        at += file->vn_next;
    }
}

void read_own_versions(const Dynamic& dynamic, ElfObject& out) {
    const auto table = dynamic.table(DT_VERDEF);
    if (!table) return;
    std::uint64_t at = 0;
    const std::uint64_t count = std::min<std::uint64_t>(dynamic.value(DT_VERDEFNUM), most_entries);
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto version = item<Elf64_Verdef>(*table, at);
        if (!version) return;
        const auto name = item<Elf64_Verdaux>(*table, at + version->vd_aux);
        // The first one names the file.
        if (name && (version->vd_flags & VER_FLG_BASE) == 0)
            out.versions.insert(dynamic.text(name->vda_name));
        if (version->vd_next == 0) return;
        at += version->vd_next;
    }
}

std::string joined(const std::vector<std::string>& texts) {
    return fmt::format("{}", fmt::join(texts, ":"));
}

Release release_of(std::string_view version) {
    constexpr std::string_view prefix = "GLIBC_";
    if (!version.starts_with(prefix)) return {};
    version.remove_prefix(prefix.size());
    Release out;
    const char* const end = version.data() + version.size();
    const auto major = std::from_chars(version.data(), end, out.major);
    if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return {};
    const auto minor = std::from_chars(major.ptr + 1, end, out.minor);
    return minor.ec == std::errc() ? out : Release{};
}

}  // namespace

std::optional<ElfObject> read_elf(int descriptor) {
    const Reader file(descriptor);
    const auto head = file.bytes(0, sizeof(Elf64_Ehdr));
    if (!head || std::memcmp(head->data(), ELFMAG, SELFMAG) != 0) return std::nullopt;
    const auto header = item<Elf64_Ehdr>(*head, 0);
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_phentsize != sizeof(Elf64_Phdr))
        return std::nullopt;
    const auto table = file.bytes(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr));
    if (!table) return std::nullopt;
    std::vector<Elf64_Phdr> segments;
    for (std::uint64_t i = 0; i < header->e_phnum; ++i)
        segments.push_back(*item<Elf64_Phdr>(*table, i * sizeof(Elf64_Phdr)));
    Dynamic dynamic(file, std::move(segments));
    if (!dynamic.load()) return std::nullopt;

    ElfObject out;
    out.machine = header->e_machine;
    if (const Elf64_Phdr* const segment = dynamic.first(PT_INTERP); segment != nullptr) {
        if (const auto bytes = file.bytes(segment->p_offset, segment->p_filesz))
            out.interpreter = text_at(*bytes, 0);
    }
    out.soname = joined(dynamic.texts(DT_SONAME));
    out.needed = dynamic.texts(DT_NEEDED);
    out.rpath = joined(dynamic.texts(DT_RPATH));
    out.runpath = joined(dynamic.texts(DT_RUNPATH));
    read_needed_versions(dynamic, out);
    read_own_versions(dynamic, out);
    return out;
}

bool is_of_c_library(std::string_view soname) {
    constexpr std::array<std::string_view, 10> parts{
        "libc.so.",      "libm.so.",    "libdl.so.",   "libpthread.so.", "librt.so.",
        "libresolv.so.", "libutil.so.", "libanl.so.1", "libmvec.so.",    "ld-linux"};
    return soname.starts_with("ld64.so") ||
           std::any_of(parts.begin(), parts.end(),
                       [&](std::string_view part) { return soname.starts_with(part); });
}

std::string Release::text() const {
    return fmt::format("{}.{}", major, minor);
}

Release newest_release(const std::set<std::string>& versions) {
    Release newest;
    for (const std::string& version : versions)
        newest = std::max(newest, release_of(version));
    return newest;
}

}  // namespace batchai::node

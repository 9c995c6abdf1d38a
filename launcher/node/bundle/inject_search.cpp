// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/bundle/inject_search.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::node {

namespace {

// ld.so.cache as glibc writes it since 2.2 (sysdeps/generic/dl-cache.h); before 2.32 it comes after
// a table in the older form.
constexpr std::string_view cache_magic = "glibc-ld.so.cache1.1";
// More than any real one has: an image's is a stranger's.
constexpr std::uint32_t most_entries = 20000;
constexpr std::size_t longest_path = 1024;

struct CacheHeader {
    std::array<char, 20> magic;
    std::uint32_t count;
    std::uint32_t strings;
    std::array<std::uint32_t, 5> unused;
};

struct CacheEntry {
    std::int32_t flags;
    std::uint32_t name;  // offsets of strings, from the header
    std::uint32_t path;
    std::uint32_t system;
    std::uint64_t hardware;
};

static_assert(sizeof(CacheHeader) == 48 && sizeof(CacheEntry) == 24);

std::string string_at(std::string_view bytes, std::uint32_t offset) {
    if (offset >= bytes.size()) return {};
    const std::string_view rest = bytes.substr(offset, longest_path);
    return std::string(rest.substr(0, rest.find('\0')));
}

// Those of Debian and its like, then those of others.
#if defined(__x86_64__)
constexpr std::string_view triplet = "x86_64-linux-gnu";
#elif defined(__aarch64__)
constexpr std::string_view triplet = "aarch64-linux-gnu";
#else
constexpr std::string_view triplet = "none";
#endif

std::vector<std::string> usual_directories() {
    const std::string name(triplet);
    return {"/lib/" + name, "/usr/lib/" + name, "/lib64", "/usr/lib64", "/lib", "/usr/lib"};
}

}  // namespace

std::multimap<std::string, std::string> read_loader_cache(std::string_view bytes) {
    std::multimap<std::string, std::string> found;
    const std::size_t begin = bytes.find(cache_magic);
    if (begin == std::string_view::npos) return found;
    bytes.remove_prefix(begin);
    CacheHeader header{};
    if (bytes.size() < sizeof header) return found;
    std::memcpy(&header, bytes.data(), sizeof header);
    for (std::uint64_t i = 0; i < std::min(header.count, most_entries); ++i) {
        const std::uint64_t at = sizeof header + i * sizeof(CacheEntry);
        CacheEntry entry{};
        if (bytes.size() < at + sizeof entry) break;
        std::memcpy(&entry, bytes.data() + at, sizeof entry);
        // Variants for newer processors stand beside the plain one.
        if (entry.hardware != 0) continue;
        found.emplace(string_at(bytes, entry.name), string_at(bytes, entry.path));
    }
    return found;
}

std::vector<std::string> places_of_library(const std::string& name, std::string_view library_path,
                                           const std::multimap<std::string, std::string>& cache) {
    std::vector<std::string> places;
    for (const std::string_view directory : base::split(library_path, ':')) {
        if (directory.starts_with('/')) places.push_back(fmt::format("{}/{}", directory, name));
    }
    const auto [first, last] = cache.equal_range(name);
    for (auto entry = first; entry != last; ++entry)
        places.push_back(entry->second);
    for (const std::string& directory : usual_directories())
        places.push_back(fmt::format("{}/{}", directory, name));
    return places;
}

std::map<std::string, std::string> read_loaded_objects(std::string_view text) {
    std::map<std::string, std::string> found;
    for (std::string_view line : base::split(text, '\n')) {
        constexpr std::string_view arrow = " => ";
        line = base::trim(line);
        const std::size_t at = line.find(arrow);
        if (at == std::string_view::npos) continue;
        std::string_view path = line.substr(at + arrow.size());
        if (!path.starts_with('/')) continue;
        // " (0x00007f…)"
        if (const std::size_t address = path.rfind(" ("); address != std::string_view::npos)
            path = path.substr(0, address);
        found.emplace(line.substr(0, at), path);
    }
    return found;
}

}  // namespace batchai::node

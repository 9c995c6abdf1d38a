// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// What shared objects and programs say of each other (ELF, 64 bits, little endian), read without
// running them: they may be an image's.
namespace batchai::node {

struct ElfObject {
    unsigned int machine = 0;  // e_machine of elf(5)
    std::string interpreter;   // of a program: the dynamic loader
    std::string soname;
    std::vector<std::string> needed;  // names of libraries
    std::string rpath;                // DT_RPATH, as written
    std::string runpath;              // DT_RUNPATH
    // Versions of symbols, by the library that must have them.
    std::map<std::string, std::set<std::string>> needed_versions;
    std::set<std::string> versions;  // that it has itself
};

// Of the open file; nothing when it is no such object, or is damaged.
[[nodiscard]] std::optional<ElfObject> read_elf(int descriptor);

// Part of the C library: never brought into an image, which has all of it or nothing.
[[nodiscard]] bool is_of_c_library(std::string_view soname);

// The number of the C library's release among names of versions: {2, 34} of "GLIBC_2.34" and
// "GLIBC_2.2.5". {0, 0} when there is none.
struct Release {
    int major = 0;
    int minor = 0;
    bool operator==(const Release&) const = default;
    [[nodiscard]] bool operator<(const Release& other) const {
        return major != other.major ? major < other.major : minor < other.minor;
    }
    [[nodiscard]] std::string text() const;
};
[[nodiscard]] Release newest_release(const std::set<std::string>& versions);

}  // namespace batchai::node

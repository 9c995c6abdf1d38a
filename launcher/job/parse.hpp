// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/model.hpp"
#include "job/syntax/diagnostic.hpp"

namespace batchai::job {

inline constexpr std::size_t maximum_file_size = 1UL << 20U;  // bytes
inline constexpr int maximum_nesting = 64;

// Where each value of the file stands, by JSON pointer (RFC 6901):
// "/properties/mountVolumes/azureFileShares/0/relativeMountPath". Objects and arrays are in it with
// their opening bracket.
class PositionTable {
  public:
    void add(std::string pointer, Position position) {
        positions_.insert_or_assign(std::move(pointer), position);
    }

    // The value's place; of a value that is not in the file, the nearest enclosing object or array
    // that is; an empty Position when there is none.
    [[nodiscard]] Position find(std::string_view pointer) const;
    [[nodiscard]] bool contains(std::string_view pointer) const {
        return positions_.contains(pointer);
    }
    [[nodiscard]] std::size_t size() const { return positions_.size(); }

  private:
    std::map<std::string, Position, std::less<>> positions_;
};

struct Parsed {
    std::optional<JobSpec> spec;          // present iff no diagnostic is an error
    std::vector<Diagnostic> diagnostics;  // sorted by position
    PositionTable positions;
};

// Reads the text of a job file; finds all faults in one pass. Pure: opens nothing. Read files with
// base::read_file and a limit above maximum_file_size, so that too long ones are reported here.
[[nodiscard]] Parsed parse(std::string_view text);

// Reads "mountVolumes" that stand alone, as a cluster's record and the options of a command line
// have them, in the way of a job file. The spec has nothing but them. The pointers of the positions
// are those of a job file, "/properties/mountVolumes/…"; the places are those in `text`.
[[nodiscard]] Parsed parse_mount_volumes(std::string_view text);

}  // namespace batchai::job

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

// Reads a job file, and finds all faults in it. parse() makes a tree of the text with syntax/, and
// copies its values into the model with schema/. The parts are:
//
//   model.hpp           the contents of a job file as typed values
//   syntax/             the text: the reader of JSON, positions, and faults with their places
//   schema/             the table of all keys, and the checks of their values
//   metric_pattern.hpp  the expression that finds the metric of a sweep
//   to_json.hpp         a job's settings as `job show` prints them
//   tools/              makes the reference page and the JSON Schema from the table
namespace batchai::job {

inline constexpr std::size_t maximum_file_size = 1UL << 20U;  // bytes
inline constexpr int maximum_nesting = 64;

// The position of each value of the file, by its JSON pointer (RFC 6901):
// "/properties/mountVolumes/azureFileShares/0/relativeMountPath". The position of an object or
// array is that of its opening bracket.
class PositionTable {
  public:
    void add(std::string pointer, Position position) {
        positions_.insert_or_assign(std::move(pointer), position);
    }

    // Returns the position of the value. If the value is not in the file, returns that of the
    // nearest enclosing object or array that is, or an empty Position if there is none.
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

// Parses the text of a job file and finds all faults in one pass. Opens no file. Callers should use
// base::read_file with a limit above maximum_file_size, so that a file that is too long is reported
// here.
[[nodiscard]] Parsed parse(std::string_view text);

// Parses the value of "mountVolumes" on its own, by the rules of a job file. A cluster's record and
// the options of a command line have it in this form. Nothing else in the spec is set. The pointers
// of the positions are those of a job file, "/properties/mountVolumes/…", and the positions refer
// to `text`.
[[nodiscard]] Parsed parse_mount_volumes(std::string_view text);

}  // namespace batchai::job

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/failure.hpp"

namespace mpi_bridge::timeline_tool {

// Reads the events of a trace, which is a JSON array of objects, one after the other, in memory
// that does not grow with the file. It parses only as much JSON as is needed to find an object's
// end.
//
// The file of a process that was killed may lack its end: reading then stops after the last
// complete event, and torn() returns true.
class EventReader {
  public:
    // Failures are MPIB_ERROR_INVALID_ARGUMENT; those of next() begin with "PATH: byte N: ".
    [[nodiscard]] static Outcome<std::unique_ptr<EventReader>> open(std::string path);

    struct RawEvent {
        std::string_view text;     // "{...}", valid until the next call
        std::uint64_t offset = 0;  // in the file, of its first byte
    };
    // Returns nullopt when there are no more events.
    [[nodiscard]] Outcome<std::optional<RawEvent>> next();

    [[nodiscard]] bool torn() const { return torn_; }
    [[nodiscard]] const std::string& path() const { return path_; }

    // The failure with the text "PATH: byte N: what".
    [[nodiscard]] Failure at(std::uint64_t offset, std::string_view what) const;

  private:
    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    enum class Place { before_array, before_first, after_event, at_end };

    EventReader(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
    // The byte that is `ahead` bytes after the position; nullopt at the end of the file.
    [[nodiscard]] std::optional<char> peek(std::size_t ahead = 0);
    [[nodiscard]] std::optional<char> skip_space();
    void advance(std::size_t bytes) { position_ += bytes; }
    [[nodiscard]] std::uint64_t offset() const { return dropped_ + position_; }
    [[nodiscard]] Outcome<std::size_t> object_bytes();
    [[nodiscard]] Done enter_array();
    [[nodiscard]] Done leave_array();
    std::optional<RawEvent> tear();

    std::string path_;
    std::unique_ptr<std::FILE, Close> file_;
    std::string window_;         // part of the file
    std::size_t position_ = 0;   // in the window: what comes next
    std::uint64_t dropped_ = 0;  // bytes of the file before the window
    Place place_ = Place::before_array;
    bool torn_ = false;
};

}  // namespace mpi_bridge::timeline_tool

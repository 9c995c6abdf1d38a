// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/event_reader.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "trace/quoting.hpp"

namespace mpi_bridge::timeline_tool {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;
// Names have at most 4 KiB, or six times that when escaped; a file with longer events is not a
// timeline.
constexpr std::size_t longest_event = std::size_t{1} << 20;

bool is_space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

}  // namespace

Outcome<std::unique_ptr<EventReader>> EventReader::open(std::string path) {
    std::FILE* const file = std::fopen(path.c_str(), "rbe");
    if (file == nullptr) {
        return fail(
            MPIB_ERROR_INVALID_ARGUMENT,
            fmt::format("{}: cannot be read: {}", path, std::generic_category().message(errno)));
    }
    return std::unique_ptr<EventReader>(new EventReader(std::move(path), file));
}

Failure EventReader::at(std::uint64_t offset, std::string_view what) const {
    return {MPIB_ERROR_INVALID_ARGUMENT, fmt::format("{}: byte {}: {}", path_, offset, what)};
}

std::optional<char> EventReader::peek(std::size_t ahead) {
    const std::size_t wanted = position_ + ahead;
    if (wanted >= window_.size()) {
        window_.erase(0, position_);
        dropped_ += std::exchange(position_, 0);
        const std::size_t kept = window_.size();
        window_.resize(kept + piece_bytes);
        const std::size_t read = std::fread(window_.data() + kept, 1, piece_bytes, file_.get());
        window_.resize(kept + read);
        if (ahead >= window_.size()) return std::nullopt;
    }
    return window_[position_ + ahead];
}

std::optional<char> EventReader::skip_space() {
    auto byte = peek();
    while (byte && is_space(*byte)) {
        advance(1);
        byte = peek();
    }
    return byte;
}

// The length of the object that begins at the position; 0 when the file ends first.
Outcome<std::size_t> EventReader::object_bytes() {
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t length = 0; length < longest_event; ++length) {
        const auto byte = peek(length);
        if (!byte) return 0;
        if (in_string) {
            if (*byte == '\\') {
                ++length;
            } else if (*byte == '"') {
                in_string = false;
            }
        } else if (*byte == '"') {
            in_string = true;
        } else if (*byte == '{') {
            ++depth;
        } else if (*byte == '}' && --depth == 0) {
            return length + 1;
        }
    }
    return tl::unexpected<Failure>(at(offset(), "an event of more than a mebibyte"));
}

Done EventReader::enter_array() {
    const auto byte = skip_space();
    if (std::ferror(file_.get()) != 0) {
        return tl::unexpected<Failure>(at(offset(), "the file cannot be read"));
    }
    if (!byte) return tl::unexpected<Failure>(at(offset(), "the file is empty"));
    if (*byte != '[') {
        return tl::unexpected<Failure>(at(offset(), "no JSON array of trace events"));
    }
    advance(1);
    place_ = Place::before_first;
    return {};
}

Done EventReader::leave_array() {
    advance(1);
    place_ = Place::at_end;
    if (skip_space()) {
        return tl::unexpected<Failure>(at(offset(), "text after the end of the array"));
    }
    return {};
}

std::optional<EventReader::RawEvent> EventReader::tear() {
    torn_ = true;
    place_ = Place::at_end;
    return std::nullopt;
}

Outcome<std::optional<EventReader::RawEvent>> EventReader::next() {
    if (place_ == Place::at_end) return std::nullopt;
    if (place_ == Place::before_array) {
        TRY(enter_array());
    }
    auto byte = skip_space();
    bool comma = false;
    if (place_ == Place::after_event && byte == ',') {
        comma = true;
        advance(1);
        byte = skip_space();
    }
    if (std::ferror(file_.get()) != 0) {
        return tl::unexpected<Failure>(at(offset(), "the file cannot be read"));
    }
    // Either the file ends here, or it goes on with zeros, which a host that lost power leaves, or
    // the last write did not get beyond the comma.
    if (!byte || *byte == '\0' || (comma && *byte == ']')) return tear();
    if (*byte == ']') {
        TRY(leave_array());
        return std::nullopt;
    }
    if (*byte != '{' || (place_ == Place::after_event && !comma)) {
        return tl::unexpected<Failure>(at(
            offset(),
            fmt::format("{} where {} is expected", quoted_for_people(std::string_view(&*byte, 1)),
                        place_ == Place::after_event && !comma ? "a comma or ]" : "an event")));
    }
    const auto bytes = TRY(object_bytes());
    if (bytes == 0) return tear();
    const RawEvent event{std::string_view(window_).substr(position_, bytes), offset()};
    advance(bytes);
    place_ = Place::after_event;
    return event;
}

}  // namespace mpi_bridge::timeline_tool

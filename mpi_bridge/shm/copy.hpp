// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mpi_bridge::shm {

// A whole result of this length or more does not fit in a rank's share of the caches.
constexpr std::size_t past_caches_from = 8UL << 20;

using Copy = void(std::byte* to, const std::byte* from, std::size_t length);

inline void copy_through_caches(std::byte* to, const std::byte* from, std::size_t length) {
    std::memcpy(to, from, length);
}

// Copies as memcpy() does, but writes past the caches where the processor can: an ordinary write
// first reads the line that it replaces, which is a third of all traffic of a copy. For pieces of a
// result that is longer than the caches. memcpy() does this only for pieces that are themselves
// that long.
inline void copy_past_caches(std::byte* to, const std::byte* from, std::size_t length) {
#if defined(__SSE2__)
    constexpr std::size_t line = 64;
    constexpr std::size_t vector = sizeof(__m128i);
    const std::size_t head = std::min(length, (line - reinterpret_cast<std::uintptr_t>(to)) % line);
    std::memcpy(to, from, head);
    std::size_t done = head;
    for (; length - done >= line; done += line) {
        for (std::size_t at = done; at < done + line; at += vector) {
            const auto* const source = reinterpret_cast<const __m128i*>(from + at);
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), _mm_loadu_si128(source));
        }
    }
    std::memcpy(to + done, from + done, length - done);
    // These writes are not ordered with later ones, which may tell others that the data is there.
    _mm_sfence();
#else
    std::memcpy(to, from, length);
#endif
}

// How the pieces of a result of that many bytes should be copied to it.
[[nodiscard]] inline Copy* copy_for(std::size_t result_bytes) {
    return result_bytes >= past_caches_from ? copy_past_caches : copy_through_caches;
}

}  // namespace mpi_bridge::shm

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mpi_bridge {

// SHA-256 of FIPS 180-4. It is implemented here, not taken from a library, because this code runs
// inside other people's programs: Python brings its own libcrypto, often of another version under
// the same name, and a process can have only one of them.
class Sha256 {
  public:
    static constexpr std::size_t block_bytes = 64;
    using Digest = std::array<std::byte, 32>;

    Sha256& add(std::span<const std::byte> data);
    // Nothing can be added afterwards.
    [[nodiscard]] Digest finish();

  private:
    void take_block(const std::byte* block);

    std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<std::byte, block_bytes> pending_{};
    std::size_t pending_bytes_ = 0;
    std::uint64_t bytes_ = 0;
};

// HMAC of RFC 2104 with SHA-256.
[[nodiscard]] Sha256::Digest hmac_sha256(std::span<const std::byte> key,
                                         std::span<const std::byte> message);

// Takes the same time wherever the two differ, so that a digest cannot be guessed byte by byte.
[[nodiscard]] bool equal_in_constant_time(const Sha256::Digest& one, const Sha256::Digest& other);

}  // namespace mpi_bridge

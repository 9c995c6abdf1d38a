// SPDX-License-Identifier: Apache-2.0
#include "core/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mpi_bridge {
namespace {

constexpr std::array<std::uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// SHA-256 reads words as big-endian on every machine.
std::uint32_t load(const std::byte* bytes) {
    std::uint32_t word = 0;
    for (int index = 0; index < 4; ++index)
        word = word << 8 | std::to_integer<std::uint32_t>(bytes[index]);
    return word;
}

void store(std::byte* bytes, std::uint32_t word) {
    for (int index = 0; index < 4; ++index)
        bytes[index] = static_cast<std::byte>(word >> (24 - 8 * index));
}

}  // namespace

void Sha256::take_block(const std::byte* block) {
    std::array<std::uint32_t, 64> schedule;
    for (std::size_t index = 0; index < 16; ++index)
        schedule[index] = load(block + 4 * index);
    for (std::size_t index = 16; index < 64; ++index) {
        const std::uint32_t w15 = schedule[index - 15];
        const std::uint32_t w2 = schedule[index - 2];
        const std::uint32_t s0 = std::rotr(w15, 7) ^ std::rotr(w15, 18) ^ w15 >> 3;
        const std::uint32_t s1 = std::rotr(w2, 17) ^ std::rotr(w2, 19) ^ w2 >> 10;
        schedule[index] = schedule[index - 16] + s0 + schedule[index - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t round = 0; round < 64; ++round) {
        const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const std::uint32_t choice = (e & f) ^ (~e & g);
        const std::uint32_t t1 = h + s1 + choice + round_constants[round] + schedule[round];
        const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + s0 + majority;
    }
    const std::array<std::uint32_t, 8> mixed{a, b, c, d, e, f, g, h};
    for (std::size_t index = 0; index < 8; ++index)
        state_[index] += mixed[index];
}

Sha256& Sha256::add(std::span<const std::byte> data) {
    bytes_ += data.size();
    while (!data.empty()) {
        const std::size_t taken = std::min(data.size(), block_bytes - pending_bytes_);
        std::memcpy(pending_.data() + pending_bytes_, data.data(), taken);
        pending_bytes_ += taken;
        data = data.subspan(taken);
        if (pending_bytes_ != block_bytes) break;
        take_block(pending_.data());
        pending_bytes_ = 0;
    }
    return *this;
}

Sha256::Digest Sha256::finish() {
    const std::uint64_t bits = bytes_ * 8;
    constexpr std::array one_bit{std::byte{0x80}};
    constexpr std::array<std::byte, block_bytes> zeros{};
    constexpr std::size_t length_at = block_bytes - 8;
    add(one_bit);
    const std::size_t room = pending_bytes_ <= length_at ? length_at : length_at + block_bytes;
    add(std::span(zeros).first(room - pending_bytes_));
    std::array<std::byte, 8> length;
    store(length.data(), static_cast<std::uint32_t>(bits >> 32));
    store(length.data() + 4, static_cast<std::uint32_t>(bits));
    add(length);
    Digest digest;
    for (std::size_t index = 0; index < state_.size(); ++index)
        store(digest.data() + 4 * index, state_[index]);
    return digest;
}

Sha256::Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
    std::array<std::byte, Sha256::block_bytes> inner{};
    if (key.size() > inner.size()) {
        const auto digest = Sha256().add(key).finish();
        std::copy(digest.begin(), digest.end(), inner.begin());
    } else {
        std::copy(key.begin(), key.end(), inner.begin());
    }
    auto outer = inner;
    for (auto& each : inner)
        each ^= std::byte{0x36};
    for (auto& each : outer)
        each ^= std::byte{0x5c};
    const auto digest = Sha256().add(inner).add(message).finish();
    return Sha256().add(outer).add(digest).finish();
}

bool equal_in_constant_time(const Sha256::Digest& one, const Sha256::Digest& other) {
    // `different` is volatile so that no compiler ends the loop at the first difference.
    volatile unsigned different = 0;
    for (std::size_t index = 0; index < one.size(); ++index)
        different = different | std::to_integer<unsigned>(one[index] ^ other[index]);
    return different == 0;
}

}  // namespace mpi_bridge

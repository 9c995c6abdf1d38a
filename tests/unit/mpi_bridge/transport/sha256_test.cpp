// SPDX-License-Identifier: Apache-2.0
// The examples of FIPS 180-4 and of RFC 4231.
#include "core/sha256.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace {

using mpi_bridge::equal_in_constant_time;
using mpi_bridge::hmac_sha256;
using mpi_bridge::Sha256;

std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::string hex(const Sha256::Digest& digest) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const auto each : digest) {
        text += digits[std::to_integer<unsigned>(each) >> 4];
        text += digits[std::to_integer<unsigned>(each) & 15];
    }
    return text;
}

std::string sha256(std::string_view text) {
    return hex(Sha256().add(bytes(text)).finish());
}
std::string hmac(std::string_view key, std::string_view text) {
    return hex(hmac_sha256(bytes(key), bytes(text)));
}

TEST(Sha256, HashesTheExamplesOfTheStandard) {
    EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                     "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
              "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    EXPECT_EQ(sha256(std::string(1000000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Breaks when what is added in parts is put together wrongly, at any boundary of a block.
TEST(Sha256, PartsMakeTheSameDigestAsTheWhole) {
    for (std::size_t length = 0; length <= 200; ++length) {
        const std::string text(length, 'x');
        for (const std::size_t first : {std::size_t{1}, std::size_t{63}, std::size_t{64}}) {
            const auto cut = std::min(first, length);
            const auto parts =
                Sha256().add(bytes(text).first(cut)).add(bytes(text).subspan(cut)).finish();
            EXPECT_EQ(hex(parts), sha256(text)) << length;
        }
    }
}

TEST(Sha256, HmacMakesTheExamplesOfRfc4231) {
    EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_EQ(hmac(std::string(20, '\xaa'), std::string(50, '\xdd')),
              "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    std::string counting;
    for (char each = 1; each <= 25; ++each)
        counting += each;
    EXPECT_EQ(hmac(counting, std::string(50, '\xcd')),
              "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    EXPECT_EQ(
        hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    EXPECT_EQ(hmac(std::string(131, '\xaa'),
                   "This is a test using a larger than block-size key and a larger than block-size "
                   "data. The key needs to be hashed before being used by the HMAC algorithm."),
              "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Sha256, DigestsAreEqualInAllBytesOrNotAtAll) {
    const auto digest = Sha256().finish();
    EXPECT_TRUE(equal_in_constant_time(digest, digest));
    for (std::size_t index = 0; index < digest.size(); ++index) {
        auto other = digest;
        other[index] ^= std::byte{0x80};
        EXPECT_FALSE(equal_in_constant_time(digest, other)) << index;
    }
}

}  // namespace

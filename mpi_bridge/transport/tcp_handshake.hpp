// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/failure.hpp"
#include "core/sha256.hpp"
#include "transport/tcp_address.hpp"

namespace mpi_bridge {

// How two ranks prove to each other that they belong to the same job, before either says anything
// of value. The secret is the one that the callee published; it never goes over the wire. Each side
// adds a fresh nonce, so that a recording of an earlier handshake proves nothing, and each proof is
// of one direction, so that a proof which is sent back proves nothing either.
//
//   caller → callee   Hello      who calls whom, the caller's nonce, and a first proof
//   callee → caller   Challenge  the callee's nonce and proof
//   caller → callee   Response   the caller's proof
//   callee → caller   Verdict    which of the connections between the two counts
//
// The proof in the hello can be replayed, as it is made without the callee's nonce. It only decides
// who is served first.
class TcpHandshake {
  public:
    using Nonce = std::array<std::byte, 32>;
    using Proof = Sha256::Digest;

    struct Hello {
        static constexpr std::uint64_t magic = 0x6d706962'74637002;  // its last byte is the version

        std::uint64_t mark = magic;
        std::uint32_t caller = 0;
        std::uint32_t callee = 0;
        Nonce nonce{};
        Proof proof{};
    };
    struct Challenge {
        Nonce nonce{};
        Proof proof{};
    };
    struct Response {
        Proof proof{};
    };
    enum class Word : std::uint32_t {
        welcome = 1,     // this connection counts
        called_you = 2,  // the callee's own call counts
        met_before = 3,  // the callee takes the two for connected already
    };
    struct Verdict {
        Proof proof{};  // of the word
    };

    // A handshake of this caller, with a fresh nonce.
    [[nodiscard]] static Outcome<TcpHandshake> call(const TcpSecret& secret, int caller,
                                                    int callee);
    [[nodiscard]] Hello hello() const;

    // The answer to a hello, with a fresh nonce.
    [[nodiscard]] static Outcome<TcpHandshake> answer(const TcpSecret& secret, const Hello& hello);
    // Whether whoever said hello knows the secret, or has recorded somebody who does.
    [[nodiscard]] bool is_genuine(const Hello& hello) const;
    [[nodiscard]] Challenge challenge() const;

    // Takes the callee's nonce. False when the callee does not know the secret.
    [[nodiscard]] bool accepts(const Challenge& challenge);
    [[nodiscard]] Response response() const;

    // Whether the caller knows the secret.
    [[nodiscard]] bool accepts(const Response& response) const;
    [[nodiscard]] Verdict verdict(Word word) const;

    // nullopt: this verdict is not the callee's.
    [[nodiscard]] std::optional<Word> word_of(const Verdict& verdict) const;

    [[nodiscard]] int caller() const { return static_cast<int>(caller_); }

  private:
    enum class Purpose : std::uint32_t { hello, challenge, response, verdict };

    TcpHandshake(const TcpSecret& secret, std::uint32_t caller, std::uint32_t callee)
        : secret_(secret), caller_(caller), callee_(callee) {}
    [[nodiscard]] Proof prove(Purpose purpose, std::uint32_t detail = 0) const;

    TcpSecret secret_;
    std::uint32_t caller_;
    std::uint32_t callee_;
    Nonce callers_{};
    Nonce callees_{};
};

}  // namespace mpi_bridge

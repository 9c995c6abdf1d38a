// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

namespace mpi_bridge {

// What a message and a receive must have in common, beside the ranks.
struct MessageAddress {
    // Begins the SHA-256 of the channel's text: notes have a fixed length, and texts do not.
    std::array<std::byte, 16> channel{};
    std::int64_t tag = 0;

    friend bool operator==(const MessageAddress&, const MessageAddress&) = default;
};

// Which message goes to which receive: each to the oldest that fits. A state machine without
// threads or sockets.
class Matching {
  public:
    static constexpr int any_rank = -1;

    // A message that a peer would like to send.
    struct Offer {
        int from = 0;
        std::uint32_t serial = 0;  // the sender's number for it
        MessageAddress address;
        std::uint64_t bytes = 0;
        bool with_data = false;         // the offer carries the data
        std::vector<std::byte> data{};  // of an offer that is kept and carries it
        bool withdrawn = false;         // the sender has given it up
    };
    struct Receive {
        std::int64_t id = 0;
        int from = any_rank;
        MessageAddress address;
    };

    // Returns the offer that this receive takes, or keeps the receive.
    [[nodiscard]] std::optional<Offer> post(const Receive& receive);
    // Returns the receive that would take this offer.
    [[nodiscard]] std::optional<Receive> find(const Offer& offer) const;
    // Returns the receive that takes this offer, or keeps the offer and the data that it carries.
    [[nodiscard]] std::optional<Receive> hear(const Offer& offer,
                                              std::span<const std::byte> data = {});
    // Forgets a receive that has not been matched. Returns false if there is none.
    bool withdraw(std::int64_t id);
    // Marks an offer that has not been taken as given up: whoever takes it learns that.
    void give_up(int from, std::uint32_t serial);
    // Forgets the offers of a rank that can no longer send what it has offered.
    void forget_offers_of(int rank);

  private:
    std::list<Receive> receives_;  // in the order posted
    std::list<Offer> offers_;      // in the order heard
};

}  // namespace mpi_bridge

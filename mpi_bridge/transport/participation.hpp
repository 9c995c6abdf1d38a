// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>

#include "transport/transport.hpp"

namespace mpi_bridge {

// Records, for each channel, the call of the last message that was sent to a peer. When such a peer
// is lost, other ranks may wait in vain for what it should have passed on, and never begin the
// call.
class Participation {
  public:
    void note(Tag tag) {
        last_[Tag::low(tag.channel, Tag::channel_bits)] =
            Tag::low(tag.sequence, Tag::sequence_bits);
    }
    [[nodiscard]] bool in_call_of(Tag tag) const {
        const auto last = last_.find(Tag::low(tag.channel, Tag::channel_bits));
        return last != last_.end() && last->second == Tag::low(tag.sequence, Tag::sequence_bits);
    }

  private:
    std::unordered_map<std::uint32_t, std::uint32_t> last_;  // sequence by channel
};

}  // namespace mpi_bridge

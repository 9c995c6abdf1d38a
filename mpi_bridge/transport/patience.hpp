// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/deadline.hpp"

namespace mpi_bridge {

// How a waiter spends its time. A peer that runs answers within microseconds, so first spin; but
// where ranks outnumber processors the peer may need this very processor, so give it away early;
// and a peer that is minutes late (a slow disk, a checkpoint) must not cost a processor: block.
class Patience {
  public:
    enum class Next { spin, yield, block };

    // crowded: more ranks on this host than processors they may use.
    explicit Patience(bool crowded) : spins_left_(crowded ? 0 : spins) {}

    // To be called after each look that found nothing.
    [[nodiscard]] Next next() {
        if (spins_left_ > 0) {
            --spins_left_;
            return Next::spin;
        }
        if (yields_left_ > 0) {
            --yields_left_;
            return Next::yield;
        }
        return Next::block;
    }

  private:
    static constexpr int spins = 200;   // some tens of microseconds of looking
    static constexpr int yields = 100;  // about as much again when nobody else wants to run

    int spins_left_;
    int yields_left_ = yields;
};

}  // namespace mpi_bridge

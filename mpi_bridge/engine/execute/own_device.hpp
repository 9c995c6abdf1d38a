// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>

#include "core/failure.hpp"

namespace mpi_bridge {

// The device on which this process has its tensors, as far as it is known. A rank may have to take
// part in an operation on device memory before it has had a tensor there itself: it has joined, or
// its tensors have had no elements so far. What it then takes must be right for its later tensors.
//
// Devices are CUDA's ordinals, or one of the two constants. Any thread may call any function.
class OwnDevice {
  public:
    static constexpr int host = -1;  // its tensors are in host memory
    static constexpr int unknown = -2;

    // The program says where its tensors will be. Refused if they are known to be elsewhere.
    [[nodiscard]] Done choose(int device);
    // A tensor is there.
    void noted(int device);
    // The calling thread takes part without a tensor: the device that is current for it will do,
    // unless more becomes known.
    void suppose_current();
    // Returns unknown until one of the others has decided.
    [[nodiscard]] int known() const { return known_; }
    // Decides, for a rank that has to take part now. `local_index` is its number among the ranks of
    // its host: without any other sign, the ranks of a host share out the devices. It is the host
    // only if the program has said so, or if there is no device.
    [[nodiscard]] int settle(int local_index);

  private:
    std::atomic<int> known_{unknown};
    std::atomic<int> supposed_{unknown};
};

// For messages.
[[nodiscard]] std::string place_name(int device);

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "core/failure.hpp"
#include "gpu/cuda/library.hpp"

namespace mpi_bridge::gpus {

// One GPU, with what the check needs on it. Nothing is ever given back: the process ends. Threads
// may use several GPUs at once, but each of them at one time by one thread only.
class Gpu {
  public:
    // `ordinal` is its number among the visible ones. The library must outlive the object.
    Gpu(const cuda::Library& cuda, int ordinal) : cuda_(cuda), ordinal_(ordinal) {}

    // Makes the context, which takes some tenths of a second, so that all GPUs do it at once. What
    // fails is told by prepare().
    void open();

    // Takes the memory for copies.
    [[nodiscard]] Done prepare();

    // Copies from the host to the GPU and back and compares the bytes. Returns the speed in bytes
    // per second, both directions together.
    [[nodiscard]] Outcome<double> copy_from_and_to_host();

    // Lets this GPU reach the other one's memory directly. Returns false if it cannot: drivers may
    // say that two GPUs can reach each other, and then find no room to map the memory, or no place
    // for one peer more. The other one must be prepared.
    [[nodiscard]] bool connect(Gpu& other);

    // Copies this GPU's memory to the other one, to which it is connected, and compares the bytes
    // that have come. Returns the speed in bytes per second.
    [[nodiscard]] Outcome<double> copy_to(Gpu& other);

    // Returns "GPU 1 (PCI 0000:11:00.0)", where 1 is its number among the visible ones.
    [[nodiscard]] std::string name() const;

  private:
    [[nodiscard]] Done leave() const;
    [[nodiscard]] Outcome<char*> pinned() const;
    [[nodiscard]] Done copy(cuda::Address to, cuda::Address from) const;
    // Copies to the host what `from` has, and says whether it is what `sent` has.
    [[nodiscard]] Outcome<bool> holds(cuda::Address from, const char* sent);

    const cuda::Library& cuda_;
    int ordinal_;
    Done done_;
    cuda::Device device_ = 0;
    std::string bus_;  // the address on PCI; empty: not known
    cuda::Context context_ = nullptr;
    cuda::Stream stream_ = nullptr;
    cuda::Address memory_ = 0;  // what the host sends
    cuda::Address inbox_ = 0;   // what other GPUs send
    char* sent_ = nullptr;      // different for each GPU
    char* returned_ = nullptr;
};

}  // namespace mpi_bridge::gpus

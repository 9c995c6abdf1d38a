// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "subject.hpp"

namespace bench {

// One of the libraries that are compared. The calls below are the ones that are timed; counts are
// of floats.
class Library : public Subject {
  public:
    // data[i] = the sum of all ranks' data[i].
    virtual void allreduce(float* data, std::size_t count) = 0;

    // recv[i] = the sum of all ranks' send[rank * part + i].
    virtual void reduce_scatter(const float* send, float* recv, std::size_t part) = 0;

    // recv[r * part + i] = rank r's send[i].
    virtual void allgather(const float* send, float* recv, std::size_t part) = 0;

    // recv[r * part + i] = rank r's send[rank * part + i].
    virtual void alltoall(const float* send, float* recv, std::size_t part) = 0;

    // data[i] = rank 0's data[i].
    virtual void broadcast(float* data, std::size_t count) = 0;

    [[nodiscard]] virtual bool has(Collective) const { return true; }

    // Page-aligned room for so many floats, of the kind that the variant is about. Not initialised.
    [[nodiscard]] virtual float* allocate(std::size_t count);
    virtual void release(float* memory);

    void sum(float* data, std::size_t count) override { allreduce(data, count); }
    [[nodiscard]] std::unique_ptr<Work> work(Collective collective, std::size_t bytes) override;
};

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// mpi_bridge's blocking calls: "private" buffers.
#include <stdexcept>

#include "library.hpp"
#include "mpi_bridge.h"
#include "private_memory.hpp"

namespace bench {
namespace {

void must(mpib_status status) {
    if (status != MPIB_OK) throw std::runtime_error(mpib_last_error());
}

class MpiBridge final : public Library {
  public:
    MpiBridge() { must(mpib_init()); }
    ~MpiBridge() override { mpib_finalize(); }

    std::string name() const override { return std::string("mpi_bridge ") + mpib_version(); }
    int rank() const override { return mpib_rank(); }
    int size() const override { return mpib_size(); }

    float* allocate(std::size_t count) override { return memory_.allocate(count); }

    void allreduce(float* data, std::size_t count) override {
        must(mpib_allreduce(data, data, count, MPIB_FLOAT32, MPIB_SUM));
    }

    void barrier() override { must(mpib_barrier()); }

  private:
    PrivateMemory memory_;
};

}  // namespace

std::unique_ptr<Library> join(const std::string& variant) {
    if (variant != "private") throw std::runtime_error("the only variant of mpi_bridge is private");
    return std::make_unique<MpiBridge>();
}

}  // namespace bench

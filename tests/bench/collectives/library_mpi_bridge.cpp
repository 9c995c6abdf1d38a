// SPDX-License-Identifier: Apache-2.0
// mpi_bridge in four variants: its blocking call with "private" buffers or with "shared" ones from
// mpib_alloc(), and its engine, private buffers again: "engine" submits, waits and releases, "call"
// does the same in one call.
#include <cstdint>
#include <stdexcept>

#include "library.hpp"
#include "mpi_bridge.h"
#include "mpi_bridge_engine.h"
#include "private_memory.hpp"

namespace bench {
namespace {

void must(mpib_status status) {
    if (status != MPIB_OK) throw std::runtime_error(mpib_last_error());
}

class Blocking : public Library {
  public:
    Blocking() { must(mpib_init()); }
    ~Blocking() override { mpib_finalize(); }

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

class Shared final : public Blocking {
  public:
    float* allocate(std::size_t count) override {
        // Freed by mpib_finalize().
        auto* const block = static_cast<float*>(mpib_alloc(count * sizeof(float)));
        if (block == nullptr) throw std::runtime_error(mpib_last_error());
        return block;
    }
};

class Engine final : public Blocking {
  public:
    explicit Engine(bool in_one_call) : in_one_call_(in_one_call) {}

    void allreduce(float* data, std::size_t count) override {
        const auto elements = static_cast<std::int64_t>(count);
        mpib_operation operation{};
        operation.struct_bytes = sizeof operation;
        operation.kind = MPIB_ALLREDUCE;
        operation.name = "gradient";
        operation.send = data;
        operation.recv = data;
        operation.shape = &elements;
        operation.dimensions = 1;
        operation.datatype = MPIB_FLOAT32;
        operation.op = MPIB_SUM;
        operation.flags = MPIB_WAITED_FOR;
        if (in_one_call_) {
            must(mpib_call(&operation));
            return;
        }
        mpib_handle handle = 0;
        must(mpib_submit(&operation, &handle));
        must(mpib_wait(handle, 0));
        must(mpib_release(handle));
    }

  private:
    bool in_one_call_;
};

}  // namespace

std::unique_ptr<Library> join(const std::string& variant) {
    if (variant == "private") return std::make_unique<Blocking>();
    if (variant == "shared") return std::make_unique<Shared>();
    if (variant == "engine") return std::make_unique<Engine>(false);
    if (variant == "call") return std::make_unique<Engine>(true);
    throw std::runtime_error("the variants of mpi_bridge are private, shared, engine and call");
}

}  // namespace bench

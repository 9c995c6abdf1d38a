// SPDX-License-Identifier: Apache-2.0
// mpi_bridge in four variants: its blocking call with "private" buffers or with "shared" ones from
// mpib_alloc(), and its engine, private buffers again: "engine" submits, waits and releases, "call"
// does the same in one call.
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "library.hpp"
#include "mpi_bridge.h"
#include "mpi_bridge_engine.h"

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

    void allreduce(float* data, std::size_t count) override { sum(data, count); }

    void reduce_scatter(const float* send, float* recv, std::size_t part) override {
        counts_.assign(static_cast<std::size_t>(size()), part);
        must(mpib_reduce_scatter(send, recv, counts_.data(), MPIB_FLOAT32, MPIB_SUM));
    }

    void allgather(const float* send, float* recv, std::size_t part) override {
        must(mpib_allgather(send, recv, part * sizeof(float)));
    }

    void alltoall(const float* send, float* recv, std::size_t part) override {
        must(mpib_alltoall(send, recv, part * sizeof(float)));
    }

    void broadcast(float* data, std::size_t count) override {
        must(mpib_broadcast(data, count * sizeof(float), 0));
    }

    // Never through the engine: the benchmark's own sums would take the place of its plan.
    void sum(float* data, std::size_t count) final {
        must(mpib_allreduce(data, data, count, MPIB_FLOAT32, MPIB_SUM));
    }

    void barrier() override { must(mpib_barrier()); }

  private:
    std::vector<std::size_t> counts_;
};

class Shared final : public Blocking {
  public:
    float* allocate(std::size_t count) override {
        auto* const block = static_cast<float*>(mpib_alloc(count * sizeof(float)));
        if (block == nullptr) throw std::runtime_error(mpib_last_error());
        return block;
    }
    void release(float* memory) override { mpib_free(memory); }
};

class Engine final : public Blocking {
  public:
    explicit Engine(bool in_one_call) : in_one_call_(in_one_call) {}

    void allreduce(float* data, std::size_t count) override {
        perform(MPIB_ALLREDUCE, "allreduce", {data, count}, {data, count});
    }

    void reduce_scatter(const float* send, float* recv, std::size_t part) override {
        perform(MPIB_REDUCE_SCATTER, "reduce_scatter", {send, part * ranks()}, {recv, part});
    }

    void allgather(const float* send, float* recv, std::size_t part) override {
        perform(MPIB_ALLGATHER, "allgather", {send, part}, {recv, part * ranks()});
    }

    void alltoall(const float* send, float* recv, std::size_t part) override {
        perform(MPIB_ALLTOALL, "alltoall", {send, part * ranks()}, {recv, part * ranks()});
    }

    void broadcast(float* data, std::size_t count) override {
        perform(MPIB_BROADCAST, "broadcast", {data, count}, {data, count});
    }

  private:
    [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(size()); }

    void perform(mpib_kind kind, const char* name, std::span<const float> send,
                 std::span<float> recv) {
        const auto elements = static_cast<std::int64_t>(send.size());
        mpib_operation operation{};
        operation.struct_bytes = sizeof operation;
        operation.kind = kind;
        operation.name = name;
        operation.send = send.data();
        operation.recv = recv.data();
        operation.recv_bytes = recv.size_bytes();
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

    bool in_one_call_;
};

}  // namespace

std::unique_ptr<Subject> join(const std::string& variant) {
    if (variant == "private") return std::make_unique<Blocking>();
    if (variant == "shared") return std::make_unique<Shared>();
    if (variant == "engine") return std::make_unique<Engine>(false);
    if (variant == "call") return std::make_unique<Engine>(true);
    throw std::runtime_error("the variants of mpi_bridge are private, shared, engine and call");
}

}  // namespace bench

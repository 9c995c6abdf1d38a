// SPDX-License-Identifier: Apache-2.0
// Gloo over TCP, with its "ring" or its "bcube" algorithm of allreduce. Ranks are counted by srun
// and meet through files in the directory that BENCH_MEETING names, which must be new for each run.
#include <memory>
#include <stdexcept>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "library.hpp"
#include "variables.hpp"

namespace bench {
namespace {

using Algorithm = gloo::AllreduceOptions::Algorithm;

class Gloo final : public Library {
  public:
    explicit Gloo(Algorithm algorithm) : algorithm_(algorithm) {
        gloo::transport::tcp::attr address;
        address.iface = variable("BENCH_INTERFACE");
        const auto context = std::make_shared<gloo::rendezvous::Context>(
            std::stoi(variable("SLURM_PROCID")), std::stoi(variable("SLURM_NTASKS")));
        gloo::rendezvous::FileStore store(variable("BENCH_MEETING"));
        auto device = gloo::transport::tcp::CreateDevice(address);
        context->connectFullMesh(store, device);
        context_ = context;
    }

    std::string name() const override { return "Gloo " GLOO_BENCH_VERSION; }
    int rank() const override { return context_->rank; }
    int size() const override { return context_->size; }

    // Its reduce_scatter is of an older kind, which makes its plan anew for each pair of buffers.
    bool has(Collective collective) const override {
        return collective != Collective::reduce_scatter;
    }

    void allreduce(float* data, std::size_t count) override {
        gloo::AllreduceOptions options(context_);
        options.setAlgorithm(algorithm_);
        options.setOutput(data, count);
        using Sum = void (*)(void*, const void*, const void*, std::size_t);
        options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
        gloo::allreduce(options);
    }

    void reduce_scatter(const float*, float*, std::size_t) override {
        throw std::runtime_error("this benchmark does not call Gloo's reduce_scatter");
    }

    void allgather(const float* send, float* recv, std::size_t part) override {
        gloo::AllgatherOptions options(context_);
        options.setInput(const_cast<float*>(send), part);
        options.setOutput(recv, part * ranks());
        gloo::allgather(options);
    }

    void alltoall(const float* send, float* recv, std::size_t part) override {
        gloo::AlltoallOptions options(context_);
        options.setInput(const_cast<float*>(send), part * ranks());
        options.setOutput(recv, part * ranks());
        gloo::alltoall(options);
    }

    void broadcast(float* data, std::size_t count) override {
        gloo::BroadcastOptions options(context_);
        options.setOutput(data, count);
        options.setRoot(0);
        gloo::broadcast(options);
    }

    void barrier() override {
        gloo::BarrierOptions options(context_);
        gloo::barrier(options);
    }

  private:
    std::size_t ranks() const { return static_cast<std::size_t>(context_->size); }

    Algorithm algorithm_;
    std::shared_ptr<gloo::Context> context_;
};

}  // namespace

std::unique_ptr<Subject> join(const std::string& variant) {
    if (variant == "ring") return std::make_unique<Gloo>(Algorithm::RING);
    if (variant == "bcube") return std::make_unique<Gloo>(Algorithm::BCUBE);
    throw std::runtime_error("the variants of Gloo are ring and bcube");
}

}  // namespace bench

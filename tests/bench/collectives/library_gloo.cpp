// SPDX-License-Identifier: Apache-2.0
// Gloo over TCP, with its "ring" or its "bcube" algorithm. Ranks are counted by srun and meet
// through files in the directory that BENCH_MEETING names, which must be new for each run.
#include <cstdlib>
#include <stdexcept>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "library.hpp"
#include "private_memory.hpp"

namespace bench {
namespace {

using Algorithm = gloo::AllreduceOptions::Algorithm;

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
    return value;
}

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

    float* allocate(std::size_t count) override { return memory_.allocate(count); }

    void allreduce(float* data, std::size_t count) override {
        gloo::AllreduceOptions options(context_);
        options.setAlgorithm(algorithm_);
        options.setOutput(data, count);
        using Sum = void (*)(void*, const void*, const void*, std::size_t);
        options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
        gloo::allreduce(options);
    }

    void barrier() override {
        gloo::BarrierOptions options(context_);
        gloo::barrier(options);
    }

  private:
    PrivateMemory memory_;
    Algorithm algorithm_;
    std::shared_ptr<gloo::Context> context_;
};

}  // namespace

std::unique_ptr<Library> join(const std::string& variant) {
    if (variant == "ring") return std::make_unique<Gloo>(Algorithm::RING);
    if (variant == "bcube") return std::make_unique<Gloo>(Algorithm::BCUBE);
    throw std::runtime_error("the variants of Gloo are ring and bcube");
}

}  // namespace bench

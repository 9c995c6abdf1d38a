// SPDX-License-Identifier: Apache-2.0
//
// What the engine costs beside the blocking calls it stands on, and what a step of many tensors
// takes. Any PMIx launcher starts it:
//
//   srun --mpi=pmix -n2 engine_bench        mpirun -n 2 engine_bench
//
// Rank 0 prints, in microseconds, the median of the repetitions' means.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "mpi_bridge.h"
#include "mpi_bridge_engine.h"

namespace {

using Clock = std::chrono::steady_clock;

void must(mpib_status status) {
    if (status != MPIB_OK) mpib_abort(1, mpib_last_error());
}

// Microseconds of one call of `body`.
double measure(int calls, const std::function<void()>& body) {
    constexpr int repetitions = 9;
    for (int call = 0; call < calls / 4 + 5; ++call)
        body();
    std::vector<double> means;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
        must(mpib_barrier());
        const auto began = Clock::now();
        for (int call = 0; call < calls; ++call)
            body();
        const std::chrono::duration<double, std::micro> time = Clock::now() - began;
        means.push_back(time.count() / calls);
    }
    std::sort(means.begin(), means.end());
    return means[means.size() / 2];
}

void print(const char* what, double microseconds) {
    if (mpib_rank() == 0) std::printf("%-58s %12.2f us\n", what, microseconds);
}

// A tensor of floats, and its operation.
struct Tensor {
    Tensor(std::string its_name, std::int64_t count, float* memory)
        : name(std::move(its_name)), length(count) {
        operation.struct_bytes = sizeof operation;
        operation.kind = MPIB_ALLREDUCE;
        operation.name = name.c_str();
        operation.send = memory;
        operation.recv = memory;
        operation.shape = &length;
        operation.dimensions = 1;
        operation.datatype = MPIB_FLOAT32;
        operation.op = MPIB_SUM;
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;

    std::string name;
    std::int64_t length;
    mpib_operation operation{};
};

void submit_and_wait(const mpib_operation& operation, unsigned flags) {
    mpib_operation flagged = operation;
    flagged.flags = flags;
    mpib_handle handle = 0;
    must(mpib_submit(&flagged, &handle));
    must(mpib_wait(handle, 0));
    must(mpib_release(handle));
}

void compare(std::int64_t count, int calls) {
    std::vector<float> values(static_cast<std::size_t>(count));
    Tensor tensor("tensor/" + std::to_string(count), count, values.data());
    const auto n = static_cast<std::size_t>(count);
    const std::string size = std::to_string(n * sizeof(float)) + " B: ";
    print((size + "mpib_allreduce").c_str(), measure(calls, [&] {
              must(mpib_allreduce(values.data(), values.data(), n, MPIB_FLOAT32, MPIB_SUM));
          }));
    print((size + "mpib_call").c_str(),
          measure(calls, [&] { must(mpib_call(&tensor.operation)); }));
    print((size + "mpib_submit, mpib_wait, MPIB_WAITED_FOR").c_str(),
          measure(calls, [&] { submit_and_wait(tensor.operation, MPIB_WAITED_FOR); }));
    print((size + "mpib_submit, mpib_wait").c_str(),
          measure(calls, [&] { submit_and_wait(tensor.operation, 0); }));
}

// As the gradients of a small network: all submitted, then all waited for.
void step(const char* what, std::int64_t tensors, std::int64_t count, int calls) {
    std::vector<float> memory(static_cast<std::size_t>(tensors * count));
    std::vector<Tensor*> all;
    std::vector<mpib_handle> handles(static_cast<std::size_t>(tensors));
    for (std::int64_t at = 0; at < tensors; ++at)
        all.push_back(
            new Tensor(std::string(what) + std::to_string(at), count, memory.data() + at * count));
    print(what, measure(calls, [&] {
              for (std::size_t at = 0; at < all.size(); ++at)
                  must(mpib_submit(&all[at]->operation, &handles[at]));
              for (const mpib_handle handle : handles) {
                  must(mpib_wait(handle, 0));
                  must(mpib_release(handle));
              }
          }));
    for (Tensor* tensor : all)
        delete tensor;
}

}  // namespace

int main() {
    must(mpib_init());
    compare(2, 2000);
    compare(1024, 1000);
    compare(64L * 1024, 200);
    compare(4L << 20, 10);
    step("step of 100 tensors of 40 B", 100, 10, 200);
    step("step of 100 tensors of 256 KiB, adjacent", 100, 64L * 1024, 10);
    mpib_counters counters{};
    counters.struct_bytes = sizeof counters;
    must(mpib_read_counters(&counters));
    if (mpib_rank() == 0) {
        std::printf("rounds %llu, planned buckets %llu, plans made %llu, left %llu\n",
                    static_cast<unsigned long long>(counters.negotiation_rounds),
                    static_cast<unsigned long long>(counters.planned_buckets),
                    static_cast<unsigned long long>(counters.plans_made),
                    static_cast<unsigned long long>(counters.plans_broken));
    }
    must(mpib_finalize());
    return 0;
}

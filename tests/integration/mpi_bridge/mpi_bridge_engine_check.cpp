// SPDX-License-Identifier: Apache-2.0
//
// To be started as several ranks. Submits tensors by name as a training loop does, each rank in an
// order of its own, and checks every sum. Then what a loop does besides: a name outside the plan, a
// gather of uneven lengths, a process set, a tensor on whose length the ranks disagree, ranks that
// run out of data. Prints one line on rank 0; the first fault ends the rank with exit code 1.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "mpi_bridge.h"
#include "mpi_bridge_engine.h"

namespace {

int rank = 0;
int size = 0;

[[noreturn]] void stop(const std::string& what) {
    std::fprintf(stderr, "mpi_bridge_engine_check: rank %d of %d: %s\n", rank, size, what.c_str());
    std::exit(1);
}

void must(mpib_status status, const char* call) {
    if (status != MPIB_OK) {
        stop(std::string(call) + ": " + mpib_status_name(status) + ": " + mpib_last_error());
    }
}

struct Tensor {
    std::string name;
    std::vector<float> values;
    std::int64_t rows = 0;
    mpib_handle handle = 0;
};

mpib_operation sum_of(Tensor& tensor, int process_set = MPIB_WORLD) {
    tensor.rows = static_cast<std::int64_t>(tensor.values.size());
    mpib_operation operation{};
    operation.struct_bytes = sizeof operation;
    operation.kind = MPIB_ALLREDUCE;
    operation.name = tensor.name.c_str();
    operation.send = tensor.values.data();
    operation.recv = tensor.values.data();
    operation.shape = &tensor.rows;
    operation.dimensions = 1;
    operation.datatype = MPIB_FLOAT32;
    operation.op = MPIB_SUM;
    operation.process_set = process_set;
    return operation;
}

// Small whole numbers, whose sums are exact in any order.
float value(int owner, std::size_t index, int step) {
    return static_cast<float>((owner + 1) * static_cast<int>(index % 97 + 1) + step);
}

void fill(Tensor& tensor, int step) {
    for (std::size_t i = 0; i < tensor.values.size(); ++i)
        tensor.values[i] = value(rank, i, step);
}

// `ranks` have contributed what fill() gives them.
void check(const Tensor& tensor, const std::vector<int>& ranks, int step) {
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        float expected = 0;
        for (const int owner : ranks)
            expected += value(owner, i, step);
        if (tensor.values[i] != expected) {
            stop(tensor.name + ", step " + std::to_string(step) + ": element " + std::to_string(i) +
                 " is " + std::to_string(tensor.values[i]) + " instead of " +
                 std::to_string(expected));
        }
    }
}

std::vector<int> everybody() {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    for (int r = 0; r < size; ++r)
        ranks[static_cast<std::size_t>(r)] = r;
    return ranks;
}

void train() {
    std::vector<Tensor> gradients(40);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        gradients[i].name = "gradient/" + std::to_string(i);
        gradients[i].values.resize(1 + i * i * 97);
    }
    std::mt19937 random(static_cast<unsigned>(rank));
    std::vector<std::size_t> order(gradients.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i;
    constexpr int steps = 12;
    for (int step = 0; step < steps; ++step) {
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
            fill(gradients[i], step);
            const auto operation = sum_of(gradients[i]);
            must(mpib_submit(&operation, &gradients[i].handle), "mpib_submit");
        }
        if (step % 5 == 3) {
            Tensor metric{"metric", std::vector<float>(3), 0, 0};
            fill(metric, step);
            const auto operation = sum_of(metric);
            must(mpib_call(&operation), "mpib_call");
            check(metric, everybody(), step);
        }
        for (const std::size_t i : order) {
            must(mpib_wait(gradients[i].handle, 0), "mpib_wait");
            must(mpib_release(gradients[i].handle), "mpib_release");
            check(gradients[i], everybody(), step);
        }
    }
    mpib_counters counters{};
    counters.struct_bytes = sizeof counters;
    must(mpib_read_counters(&counters), "mpib_read_counters");
    if (counters.plans_made == 0 || counters.planned_buckets == 0) {
        stop("twelve equal steps, but no plan was made");
    }
}

void gather_uneven() {
    const std::vector<float> own(static_cast<std::size_t>(rank + 1), static_cast<float>(rank));
    const std::int64_t rows = rank + 1;
    mpib_operation operation{};
    operation.struct_bytes = sizeof operation;
    operation.kind = MPIB_ALLGATHER;
    operation.name = "uneven";
    operation.send = own.data();
    operation.shape = &rows;
    operation.dimensions = 1;
    operation.datatype = MPIB_FLOAT32;
    mpib_handle handle = 0;
    must(mpib_submit(&operation, &handle), "mpib_submit");
    must(mpib_wait(handle, 0), "mpib_wait");
    mpib_result result{};
    result.struct_bytes = sizeof result;
    must(mpib_get_result(handle, &result), "mpib_get_result");
    const auto* values = static_cast<const float*>(result.data);
    std::int64_t at = 0;
    for (int owner = 0; owner < size; ++owner) {
        for (int i = 0; i <= owner; ++i, ++at) {
            if (at >= result.rows || values[at] != static_cast<float>(owner)) {
                stop("allgather: row " + std::to_string(at) + " is wrong");
            }
        }
    }
    must(mpib_release(handle), "mpib_release");
}

void reduce_in_a_set() {
    std::vector<int> even;
    for (int r = 0; r < size; r += 2)
        even.push_back(r);
    int set = 0;
    must(mpib_process_set_add(even.data(), static_cast<int>(even.size()), &set),
         "mpib_process_set_add");
    if (mpib_process_set_rank(set) >= 0) {
        Tensor tensor{"in a set", std::vector<float>(5000), 0, 0};
        fill(tensor, 1);
        const auto operation = sum_of(tensor, set);
        must(mpib_call(&operation), "mpib_call");
        check(tensor, even, 1);
    }
    must(mpib_process_set_remove(set), "mpib_process_set_remove");
}

void disagree() {
    Tensor tensor{"disputed", std::vector<float>(rank == 1 ? 7 : 8), 0, 0};
    const auto operation = sum_of(tensor);
    const mpib_status status = mpib_call(&operation);
    const std::string text = mpib_last_error();
    if (status != MPIB_ERROR_MISMATCH || text.find("disputed") == std::string::npos) {
        stop(std::string("a disagreement gave ") + mpib_status_name(status) + ": " + text);
    }
}

// Rank r has r batches; who has none left joins.
void run_out_of_data() {
    for (int batch = 0; batch < rank; ++batch) {
        Tensor tensor{"last batches", std::vector<float>(100), 0, 0};
        fill(tensor, batch);
        const auto operation = sum_of(tensor);
        must(mpib_call(&operation), "mpib_call");
        std::vector<int> left;
        for (int r = batch + 1; r < size; ++r)
            left.push_back(r);
        check(tensor, left, batch);
    }
    int last = -1;
    must(mpib_join(&last), "mpib_join");
    if (last != size - 1) stop("rank " + std::to_string(last) + " is said to have joined last");
}

}  // namespace

int main() {
    must(mpib_init(), "mpib_init");
    rank = mpib_rank();
    size = mpib_size();
    train();
    gather_uneven();
    reduce_in_a_set();
    disagree();
    run_out_of_data();
    train();
    if (rank == 0) std::printf("mpi_bridge_engine_check: %d ranks, all correct\n", size);
    must(mpib_finalize(), "mpib_finalize");
    return 0;
}

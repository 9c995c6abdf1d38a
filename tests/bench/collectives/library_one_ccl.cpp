// SPDX-License-Identifier: GPL-2.0-or-later
// oneCCL on host memory, over Intel MPI: the ranks are counted by MPI, through which they also
// learn where rank 0 keeps the table that oneCCL's own ranks meet by. It is told how to work by the
// environment.
#include <string>
#include <vector>

#include <mpi.h>
#include <oneapi/ccl.hpp>

#include "library.hpp"

namespace bench {
namespace {

class OneCcl final : public Library {
  public:
    OneCcl() {
        ccl::init();
        MPI_Init(nullptr, nullptr);
        int rank = 0;
        int size = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        ccl::kvs::address_type address{};
        if (rank == 0) {
            table_ = ccl::create_main_kvs();
            address = table_->get_address();
        }
        MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
        if (rank != 0) table_ = ccl::create_kvs(address);
        ranks_.push_back(ccl::create_communicator(size, rank, table_));
    }
    // Freed before MPI ends, which it works over.
    ~OneCcl() override {
        ranks_.clear();
        table_.reset();
        MPI_Finalize();
    }

    std::string name() const override {
        const auto version = ccl::get_library_version();
        return "oneCCL " + std::to_string(version.major) + "." + std::to_string(version.minor) +
               "." + std::to_string(version.update);
    }
    int rank() const override { return ranks_.front().rank(); }
    int size() const override { return ranks_.front().size(); }

    void allreduce(float* data, std::size_t count) override {
        ccl::allreduce(data, data, count, ccl::reduction::sum, ranks_.front()).wait();
    }

    void reduce_scatter(const float* send, float* recv, std::size_t part) override {
        ccl::reduce_scatter(send, recv, part, ccl::reduction::sum, ranks_.front()).wait();
    }

    void allgather(const float* send, float* recv, std::size_t part) override {
        ccl::allgather(send, recv, part, ranks_.front()).wait();
    }

    void alltoall(const float* send, float* recv, std::size_t part) override {
        ccl::alltoall(send, recv, part, ranks_.front()).wait();
    }

    void broadcast(float* data, std::size_t count) override {
        ccl::broadcast(data, count, 0, ranks_.front()).wait();
    }

    void barrier() override { ccl::barrier(ranks_.front()).wait(); }

  private:
    ccl::shared_ptr_class<ccl::kvs> table_;
    std::vector<ccl::communicator> ranks_;  // one; it has no empty state that could be waited in
};

}  // namespace

std::unique_ptr<Subject> join(const std::string& variant) {
    if (variant != "default") throw std::runtime_error("the only variant of oneCCL is default");
    return std::make_unique<OneCcl>();
}

}  // namespace bench

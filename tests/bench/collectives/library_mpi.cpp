// SPDX-License-Identifier: Apache-2.0
// Any MPI; compiled once with each, since their headers do not agree. It has no variants of its
// own: an MPI is told how to work by its launcher's options and the environment.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include <mpi.h>

#include "library.hpp"

namespace bench {
namespace {

// Over UCX's TCP transport MPICH 4.0.2 can wait in MPI_Finalize for ever: ranks that are done wait
// for their launcher and do not answer the others any more. All is measured by then, so its ranks
// just end.
#if defined(MPICH_VERSION) && !defined(I_MPI_VERSION)
constexpr bool finalizes = false;
#else
constexpr bool finalizes = true;
#endif

// All MPIs print their own message and end the ranks when a call fails (MPI_ERRORS_ARE_FATAL, the
// default), so no return value is looked at here.
class Mpi final : public Library {
  public:
    Mpi() {
        MPI_Init(nullptr, nullptr);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
    }
    ~Mpi() override {
        if (finalizes) MPI_Finalize();
    }

    std::string name() const override {
        char text[MPI_MAX_LIBRARY_VERSION_STRING];
        int length = 0;
        MPI_Get_library_version(text, &length);
        // "Open MPI v4.1.4, package: …" or, of MPICH, the first of many lines, with a tab.
        std::string first(text, static_cast<std::size_t>(length));
        first.erase(std::min(first.find_first_of(",\n"), first.size()));
        std::replace(first.begin(), first.end(), '\t', ' ');
        return first;
    }
    int rank() const override { return rank_; }
    int size() const override { return size_; }

    void allreduce(float* data, std::size_t count) override {
        MPI_Allreduce(MPI_IN_PLACE, data, number(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }

    void reduce_scatter(const float* send, float* recv, std::size_t part) override {
        MPI_Reduce_scatter_block(send, recv, number(part), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }

    void allgather(const float* send, float* recv, std::size_t part) override {
        MPI_Allgather(send, number(part), MPI_FLOAT, recv, number(part), MPI_FLOAT, MPI_COMM_WORLD);
    }

    void alltoall(const float* send, float* recv, std::size_t part) override {
        MPI_Alltoall(send, number(part), MPI_FLOAT, recv, number(part), MPI_FLOAT, MPI_COMM_WORLD);
    }

    void broadcast(float* data, std::size_t count) override {
        MPI_Bcast(data, number(count), MPI_FLOAT, 0, MPI_COMM_WORLD);
    }

    void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  private:
    static int number(std::size_t count) {
        if (count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
            throw std::runtime_error("MPI 3 counts at most 2^31 - 1 elements");
        return static_cast<int>(count);
    }

    int rank_ = 0;
    int size_ = 0;
};

}  // namespace

std::unique_ptr<Subject> join(const std::string& variant) {
    if (variant != "default") throw std::runtime_error("the only variant of an MPI is default");
    return std::make_unique<Mpi>();
}

}  // namespace bench

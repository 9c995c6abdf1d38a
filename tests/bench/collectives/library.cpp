// SPDX-License-Identifier: GPL-2.0-or-later
#include "library.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

namespace bench {
namespace {

// A library's buffer, given back at the end.
class Buffer {
  public:
    Buffer(Library& library, std::size_t count)
        : library_(library), count_(count), data_(library.allocate(count)) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { library_.release(data_); }

    [[nodiscard]] float* data() { return data_; }
    void fill(float value) { std::fill_n(data_, count_, value); }

  private:
    Library& library_;
    std::size_t count_;
    float* data_;
};

// Element i of the vector, of rank 0; rank r has r + 1 times as much. Sums stay far below 2^24, so
// that every partial sum, in any order, is a whole number that a float can hold.
float element(std::size_t i) {
    return static_cast<float>(i % 251 + 1);
}

// Collectives that read one buffer and write another one; allreduce and broadcast work in place and
// use the first one alone.
class LibraryWork final : public Work {
  public:
    LibraryWork(Library& library, Collective collective, std::size_t bytes)
        : library_(library),
          collective_(collective),
          extent_(collective, bytes, library.size()),
          send_(library, collective == Collective::allgather ? extent_.part : extent_.whole),
          recv_(library, received()) {}

    std::size_t bytes() const override { return extent_.bytes(); }

    void run() override {
        switch (collective_) {
            case Collective::allreduce:
                return library_.allreduce(send_.data(), extent_.whole);
            case Collective::reduce_scatter:
                return library_.reduce_scatter(send_.data(), recv_.data(), extent_.part);
            case Collective::allgather:
                return library_.allgather(send_.data(), recv_.data(), extent_.part);
            case Collective::alltoall:
                return library_.alltoall(send_.data(), recv_.data(), extent_.part);
            case Collective::broadcast:
                return library_.broadcast(send_.data(), extent_.whole);
        }
    }

    void make_ready() override {
        // Zeros stay zeros however often they are added.
        send_.fill(0.0F);
        recv_.fill(0.0F);
    }

    void check() override {
        const int rank = library_.rank();
        // A broadcast must not find its result in place already.
        const bool has_input = collective_ != Collective::broadcast || rank == 0;
        const std::size_t sent =
            collective_ == Collective::allgather ? extent_.part : extent_.whole;
        for (std::size_t i = 0; i < sent; ++i)
            send_.data()[i] = has_input ? element(i) * static_cast<float>(rank + 1) : -1.0F;
        recv_.fill(-1.0F);
        run();
        const float* const result = in_place() ? send_.data() : recv_.data();
        const std::size_t count = in_place() ? extent_.whole : received();
        for (std::size_t i = 0; i < count; ++i)
            if (result[i] != expected(i)) complain(i, result[i]);
    }

  private:
    [[nodiscard]] bool in_place() const {
        return collective_ == Collective::allreduce || collective_ == Collective::broadcast;
    }

    [[nodiscard]] std::size_t received() const {
        if (in_place()) return 1;  // not used
        return collective_ == Collective::reduce_scatter ? extent_.part : extent_.whole;
    }

    [[nodiscard]] float expected(std::size_t i) const {
        const int size = library_.size();
        const auto own = static_cast<std::size_t>(library_.rank()) * extent_.part;
        const std::size_t number_of_sender = i / extent_.part + 1;
        const auto sender = static_cast<float>(number_of_sender);
        const int ranks_added = size * (size + 1) / 2;
        const auto sum = static_cast<float>(ranks_added);
        switch (collective_) {
            case Collective::allreduce:
                return element(i) * sum;
            case Collective::reduce_scatter:
                return element(own + i) * sum;
            case Collective::allgather:
                return element(i % extent_.part) * sender;
            case Collective::alltoall:
                return element(own + i % extent_.part) * sender;
            case Collective::broadcast:
                break;
        }
        return element(i);
    }

    [[noreturn]] void complain(std::size_t i, float found) const {
        const auto name = collective_names[static_cast<std::size_t>(collective_)];
        throw std::runtime_error(std::string(name) + " of " + std::to_string(bytes()) +
                                 " bytes is wrong: element " + std::to_string(i) + " is " +
                                 std::to_string(found) + ", not " + std::to_string(expected(i)));
    }

    Library& library_;
    Collective collective_;
    Extent extent_;
    Buffer send_;
    Buffer recv_;
};

}  // namespace

// Ordinary memory: what a program that knows nothing of the library's own allocator passes to it.
float* Library::allocate(std::size_t count) {
    constexpr std::size_t page = 4096;
    const std::size_t bytes = (count * sizeof(float) + page - 1) / page * page;
    auto* const memory = static_cast<float*>(std::aligned_alloc(page, bytes));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

void Library::release(float* memory) {
    std::free(memory);
}

std::unique_ptr<Work> Library::work(Collective collective, std::size_t bytes) {
    if (!has(collective)) return nullptr;
    return std::make_unique<LibraryWork>(*this, collective, bytes);
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "transport/tcp/address.hpp"
#include "transport/tcp/transport.hpp"
#include "transport/ucx/transport.hpp"

namespace mpi_bridge_test {

enum class Kind { tcp, on_host, ucx };

inline std::string name_of(const testing::TestParamInfo<Kind>& info) {
    if (info.param == Kind::on_host) return "OnHost";
    return info.param == Kind::tcp ? "Tcp" : "Ucx";
}

inline constexpr mpi_bridge::Seconds long_enough{20};
inline mpi_bridge::Deadline soon() {
    return mpi_bridge::Deadline::in(long_enough);
}

// Transports of one process that reach each other over loopback.
class Mesh {
  public:
    using Adjust = std::function<void(mpi_bridge::TcpTransport::Options&)>;

    explicit Mesh(Kind kind, int size = 2, const Adjust& adjust = {}) {
        for (int rank = 0; rank < size; ++rank)
            kind == Kind::ucx ? add_ucx(rank, size) : add_tcp(kind, rank, size, adjust);
    }

    mpi_bridge::Transport& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
    std::vector<std::byte>& address(int rank) { return addresses_[static_cast<std::size_t>(rank)]; }
    void end(int rank) { ranks_[static_cast<std::size_t>(rank)].reset(); }

  private:
    template <typename Opened>
    void add(mpi_bridge::Outcome<std::unique_ptr<Opened>> opened) {
        if (!opened) throw std::runtime_error(opened.error().text);
        addresses_.push_back((*opened)->address());
        ranks_.push_back(std::move(*opened));
    }
    template <typename Options>
    Options options(int rank, int size) {
        Options options;
        options.rank = rank;
        options.size = size;
        options.local_size = size;
        options.address_of = [this](int other) -> mpi_bridge::Outcome<std::vector<std::byte>> {
            return address(other);
        };
        return options;
    }
    void add_tcp(Kind kind, int rank, int size, const Adjust& adjust) {
        auto wishes = options<mpi_bridge::TcpTransport::Options>(rank, size);
        wishes.addresses = {kind == Kind::tcp ? "127.0.0.1" : mpi_bridge::TcpEndpoint::own_host};
        if (adjust) adjust(wishes);
        add(mpi_bridge::TcpTransport::open(std::move(wishes)));
    }
    void add_ucx(int rank, int size) {
        auto wishes = options<mpi_bridge::UcxTransport::Options>(rank, size);
        wishes.named = true;  // over TCP, since there may be nothing else here
        add(mpi_bridge::UcxTransport::open(std::move(wishes)));
    }

    std::vector<std::vector<std::byte>> addresses_;
    std::vector<std::unique_ptr<mpi_bridge::Transport>> ranks_;
};

inline std::vector<std::byte> noise(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> data(bytes);
    std::minstd_rand random(seed + 1);
    for (auto& each : data)
        each = static_cast<std::byte>(random() >> 8);
    return data;
}

// The value of an outcome that must be one.
template <typename T>
T must(mpi_bridge::Outcome<T> outcome) {
    if (!outcome) throw std::runtime_error(outcome.error().text);
    return std::move(*outcome);
}

inline mpib_status status_of(const mpi_bridge::Done& done) {
    return done ? MPIB_OK : done.error().status;
}
inline std::string text_of(const mpi_bridge::Done& done) {
    return done ? "done" : done.error().text;
}

}  // namespace mpi_bridge_test

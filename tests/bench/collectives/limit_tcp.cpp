// SPDX-License-Identifier: GPL-2.0-or-later
// A limit of every collective between hosts: one TCP stream between two of them, which carries as
// many bytes as a rank must receive in that collective. A run is there and back, and counts as two.
// Ranks are counted by srun and meet through a file in the folder that BENCH_MEETING names, which
// must be new for each run.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "subject.hpp"
#include "variables.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

void must(bool succeeded, const char* what) {
    if (!succeeded) throw std::runtime_error(std::string(what) + " failed");
}

// The connected socket of rank 0, which waits to be called, or of rank 1.
class Stream {
  public:
    explicit Stream(int rank) {
        const std::string place = variable("BENCH_MEETING") + "/address";
        socket_ = rank == 0 ? answer(place) : call(place);
        const int on = 1;
        must(setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() { close(socket_); }

    void send(const std::byte* data, std::size_t bytes) const {
        while (bytes > 0) {
            const auto sent = ::send(socket_, data, bytes, MSG_NOSIGNAL);
            must(sent > 0, "send");
            data += sent;
            bytes -= static_cast<std::size_t>(sent);
        }
    }

    void receive(std::byte* data, std::size_t bytes) const {
        while (bytes > 0) {
            const auto received = ::recv(socket_, data, bytes, 0);
            must(received > 0, "recv");
            data += received;
            bytes -= static_cast<std::size_t>(received);
        }
    }

  private:
    static int answer(const std::string& place) {
        const int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        socklen_t length = sizeof address;
        auto* const any = reinterpret_cast<sockaddr*>(&address);
        must(bind(door, any, length) == 0 && listen(door, 1) == 0, "listen");
        must(getsockname(door, any, &length) == 0, "getsockname");
        std::vector<char> host(256);
        must(gethostname(host.data(), host.size()) == 0, "gethostname");
        // Renamed into place: rank 1 finds all of it or nothing.
        std::ofstream(place + ".new") << host.data() << ' ' << ntohs(address.sin_port) << '\n';
        must(std::rename((place + ".new").c_str(), place.c_str()) == 0, "rename");
        const int connected = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
        must(connected >= 0, "accept");
        close(door);
        return connected;
    }

    static int call(const std::string& place) {
        std::string host;
        std::string port;
        for (int tries = 0; port.empty(); ++tries) {
            must(tries < 3000, "waiting for the other rank's address");
            std::this_thread::sleep_for(10ms);
            std::ifstream(place) >> host >> port;
        }
        addrinfo hints{};
        hints.ai_family = AF_INET;
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* found = nullptr;
        must(getaddrinfo(host.c_str(), port.c_str(), &hints, &found) == 0, "getaddrinfo");
        const int connected = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(connect(connected, found->ai_addr, found->ai_addrlen) == 0, "connect");
        freeaddrinfo(found);
        return connected;
    }

    int socket_ = -1;
};

class Tcp final : public Subject {
  public:
    Tcp() : rank_(std::stoi(variable("SLURM_PROCID"))), stream_(rank_) {
        if (std::stoi(variable("SLURM_NTASKS")) != 2)
            throw std::runtime_error("a stream has 2 ends");
    }

    std::string name() const override { return "one TCP stream"; }
    int rank() const override { return rank_; }
    int size() const override { return 2; }

    void barrier() override {
        std::byte token{};
        there_and_back(&token, 1);
    }

    void sum(float* data, std::size_t count) override {
        std::vector<float> others(count);
        auto* const mine = reinterpret_cast<const std::byte*>(data);
        auto* const theirs = reinterpret_cast<std::byte*>(others.data());
        const std::size_t bytes = count * sizeof(float);
        if (rank_ == 0) stream_.send(mine, bytes);
        stream_.receive(theirs, bytes);
        if (rank_ == 1) stream_.send(mine, bytes);
        for (std::size_t i = 0; i < count; ++i)
            data[i] += others[i];
    }

    void there_and_back(std::byte* data, std::size_t bytes) {
        if (rank_ == 0) stream_.send(data, bytes);
        stream_.receive(data, bytes);
        if (rank_ == 1) stream_.send(data, bytes);
    }

    std::unique_ptr<Work> work(Collective collective, std::size_t bytes) override;

  private:
    int rank_;
    Stream stream_;
};

class TcpWork final : public Work {
  public:
    TcpWork(Tcp& team, std::size_t bytes) : team_(team), data_(bytes) {}

    std::size_t bytes() const override { return data_.size(); }
    int times_in_a_run() const override { return 2; }
    void run() override { team_.there_and_back(data_.data(), data_.size()); }
    void make_ready() override { fill(0); }

    void check() override {
        fill(team_.rank() + 1);
        run();
        if (std::any_of(data_.begin(), data_.end(), [](auto each) { return each != std::byte{1}; }))
            throw std::runtime_error("a transfer is wrong");
    }

  private:
    void fill(int value) { std::fill(data_.begin(), data_.end(), static_cast<std::byte>(value)); }

    Tcp& team_;
    std::vector<std::byte> data_;
};

std::unique_ptr<Work> Tcp::work(Collective collective, std::size_t bytes) {
    const int ranks = std::stoi(variable("BENCH_RANKS"));
    return std::make_unique<TcpWork>(*this, least_received(collective, bytes, ranks));
}

}  // namespace

std::unique_ptr<Subject> join(const std::string& variant) {
    if (variant != "default") throw std::runtime_error("the only variant of a limit is default");
    return std::make_unique<Tcp>();
}

}  // namespace bench

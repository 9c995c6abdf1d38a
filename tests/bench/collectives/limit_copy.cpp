// SPDX-License-Identifier: GPL-2.0-or-later
// A limit of every collective on one host: two processes each copy, at the same time, what the
// other one has put into memory that they share into memory of their own, as many bytes as a rank
// must receive in that collective. In a broadcast only rank 1 copies. They tell each other that
// they are ready through one cache line each, once for a copy. Ranks are counted by srun and meet
// in the folder that BENCH_MEETING names, which must be new for each run.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "subject.hpp"
#include "variables.hpp"

namespace bench {
namespace {

constexpr std::size_t page = 4096;

// Memory that both processes map, made by whichever comes first; zeros at the start.
class Shared {
  public:
    Shared(const std::string& path, std::size_t bytes) : bytes_(bytes) {
        const int file = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
            throw std::runtime_error(path + " cannot be made");
        memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (memory_ == MAP_FAILED) throw std::bad_alloc();
    }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() { munmap(memory_, bytes_); }

    [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

  private:
    std::size_t bytes_;
    void* memory_ = nullptr;
};

struct alignas(128) Turn {
    std::atomic<std::uint64_t> number{0};
};

// What the two tell each other, and a board for the benchmark's own sums.
struct Board {
    std::array<Turn, 2> turns;
    std::array<std::array<float, 16384>, 2> sums;
};

class Copy final : public Subject {
  public:
    Copy()
        : rank_(std::stoi(variable("SLURM_PROCID"))),
          path_("/dev/shm/" + meeting_name()),
          memory_(path_, sizeof(Board)),
          board_(*reinterpret_cast<Board*>(memory_.data())) {
        if (std::stoi(variable("SLURM_NTASKS")) != 2) throw std::runtime_error("2 ranks copy");
        barrier();
        if (rank_ == 0) unlink(path_.c_str());
    }

    std::string name() const override { return "copy between two processes"; }
    int rank() const override { return rank_; }
    int size() const override { return 2; }

    void barrier() override {
        const auto turn = ++turn_;
        own_turn().store(turn, std::memory_order_release);
        // Yields now and then: with one busy processor a spinning process would wait for itself.
        for (int spins = 1; others_turn().load(std::memory_order_acquire) < turn; ++spins)
            if (spins % 20000 == 0) sched_yield();
    }

    void sum(float* data, std::size_t count) override {
        while (count > 0) {
            const std::size_t now = std::min(count, board_.sums[0].size());
            std::copy_n(data, now, board_.sums[static_cast<std::size_t>(rank_)].begin());
            barrier();
            for (std::size_t i = 0; i < now; ++i)
                data[i] = board_.sums[0][i] + board_.sums[1][i];
            barrier();
            data += now;
            count -= now;
        }
    }

    std::unique_ptr<Work> work(Collective collective, std::size_t bytes) override;

    // A name of its own for the next piece of memory that the two share, the same on both.
    std::string next_path() { return path_ + "-" + std::to_string(++pieces_); }

  private:
    static std::string meeting_name() {
        const std::string folder = variable("BENCH_MEETING");
        return "bench-" + folder.substr(folder.rfind('/') + 1);
    }
    std::atomic<std::uint64_t>& own_turn() {
        return board_.turns[static_cast<std::size_t>(rank_)].number;
    }
    std::atomic<std::uint64_t>& others_turn() {
        return board_.turns[static_cast<std::size_t>(1 - rank_)].number;
    }

    int rank_;
    std::string path_;
    Shared memory_;
    Board& board_;
    std::uint64_t turn_ = 0;
    int pieces_ = 0;
};

class CopyWork final : public Work {
  public:
    CopyWork(Copy& team, std::size_t bytes, bool copies)
        : team_(team),
          bytes_(bytes),
          room_((bytes + page - 1) / page * page),
          copies_(copies),
          path_(team.next_path()),
          memory_(path_, 2 * room_),
          own_(room_) {
        team_.barrier();
        if (team_.rank() == 0) unlink(path_.c_str());
    }

    std::size_t bytes() const override { return bytes_; }

    void run() override {
        team_.barrier();
        if (copies_) std::memcpy(own_.data(), part(1 - team_.rank()), bytes_);
    }

    void make_ready() override { std::memset(part(team_.rank()), 0, bytes_); }

    void check() override {
        std::memset(part(team_.rank()), team_.rank() + 1, bytes_);
        run();
        team_.barrier();
        const auto expected = static_cast<std::byte>(2 - team_.rank());
        const auto end = own_.begin() + static_cast<std::ptrdiff_t>(bytes_);
        if (copies_ && std::any_of(own_.begin(), end, [&](auto each) { return each != expected; }))
            throw std::runtime_error("a copy is wrong");
    }

  private:
    [[nodiscard]] std::byte* part(int rank) const {
        return memory_.data() + static_cast<std::size_t>(rank) * room_;
    }

    Copy& team_;
    std::size_t bytes_;
    std::size_t room_;
    bool copies_;
    std::string path_;
    Shared memory_;
    std::vector<std::byte> own_;
};

std::unique_ptr<Work> Copy::work(Collective collective, std::size_t bytes) {
    const int ranks = std::stoi(variable("BENCH_RANKS"));
    const bool copies = collective != Collective::broadcast || rank_ == 1;
    return std::make_unique<CopyWork>(*this, least_received(collective, bytes, ranks), copies);
}

}  // namespace

std::unique_ptr<Subject> join(const std::string& variant) {
    if (variant != "default") throw std::runtime_error("the only variant of a limit is default");
    return std::make_unique<Copy>();
}

}  // namespace bench

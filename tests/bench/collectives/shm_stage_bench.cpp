// SPDX-License-Identifier: Apache-2.0
// Times the shared-memory stage alone: a collective of floats among processes of this machine, in
// place where it can be, back to back.
//
//     shm_stage_bench [collective=allreduce] [ranks=2] [zero_copy=0] [piece=BYTES] [flat=BYTES]
//                     [bytes=N[,N...]]
//
// The collective is allreduce, reduce_scatter, allgather, alltoall or broadcast. Prints a line per
// length of the whole vector: bytes, the median over iterations of the time of the slowest rank,
// and the bus bandwidth of an allreduce, bytes / time * 2(n-1)/n; before and after it the one-way
// time of a cache line between the first two processors, because results compare only where that is
// the same.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processors.hpp"
#include "shm/node_stage.hpp"

namespace {

using mpi_bridge::NodeStage;
using mpi_bridge::Seconds;
using mpi_bridge::SharedHeap;
using Time = std::chrono::steady_clock;

constexpr int most_ranks = 64;
constexpr int most_iterations = 4000;
constexpr std::size_t ticket_bytes = 256;

// What the processes share besides the stage: the ticket, times, and a ball to play ping-pong with.
struct Shared {
    std::atomic<std::size_t> ticket_length{0};
    std::byte ticket[ticket_bytes];
    alignas(128) std::atomic<int> ball{0};
    float times[most_ranks][most_iterations];  // microseconds
};

struct Settings {
    int ranks = 2;
    bool zero_copy = false;
    std::string collective = "allreduce";
    NodeStage::Options options;
    std::vector<std::size_t> bytes = {8,       64,      512,     4096,    16384,    65536,
                                      1 << 18, 1 << 20, 1 << 22, 1 << 24, 1U << 26, 1U << 28};
};

[[noreturn]] void die(const std::string& text) {
    std::fprintf(stderr, "shm_stage_bench: %s\n", text.c_str());
    std::_Exit(EXIT_FAILURE);
}

template <typename T>
T value_of(mpi_bridge::Outcome<T>&& outcome) {
    if (!outcome) die(outcome.error().text);
    return std::move(*outcome);
}

void expect(const mpi_bridge::Done& done) {
    if (!done) die(done.error().text);
}

// One-way nanoseconds, on ranks 0 and 1; the best of some windows, since other work only adds.
double ping_pong(std::atomic<int>& ball, int rank) {
    constexpr int turns = 5000;
    double best = 1e9;
    for (int window = 0; window < 10; ++window) {
        const auto start = Time::now();
        for (int turn = 0; turn < turns; ++turn) {
            const int mine = 2 * (window * turns + turn) + rank;
            for (int spins = 1; ball.load(std::memory_order_acquire) != mine; ++spins) {
                if (spins % 20000 == 0) ::usleep(0);
            }
            ball.store(mine + 1, std::memory_order_release);
        }
        const std::chrono::duration<double, std::nano> time = Time::now() - start;
        best = std::min(best, time.count() / (2.0 * turns));
    }
    return best;
}

void print_ping_pong(NodeStage& stage, Shared& shared, const char* when) {
    if (stage.size() < 2) return;
    if (stage.rank() == 0) shared.ball = 0;
    expect(stage.barrier({"barrier", 0, Seconds(60)}));
    if (stage.rank() < 2) {
        const double time = ping_pong(shared.ball, stage.rank());
        if (stage.rank() == 0) std::printf("# ping-pong %s: %.1f ns\n", when, time);
    }
    expect(stage.barrier({"barrier", 0, Seconds(60)}));
}

class Rank {
  public:
    Rank(const Settings& settings, int rank, Shared& shared)
        : settings_(settings), shared_(shared), heap_(value_of(SharedHeap::create())) {
        auto options = settings.options;
        options.rank = rank;
        options.size = settings.ranks;
        options.heap = settings.zero_copy ? heap_.get() : nullptr;
        if (rank == 0) {
            stage_ = value_of(NodeStage::create(options));
            const auto ticket = stage_->ticket();
            std::copy(ticket.begin(), ticket.end(), shared.ticket);
            shared.ticket_length = ticket.size();
        } else {
            while (shared.ticket_length == 0)
                ::usleep(100);
            stage_ = value_of(NodeStage::attach(options, {shared.ticket, shared.ticket_length}));
        }
    }

    void run() {
        print_ping_pong(*stage_, shared_, "before");
        if (stage_->rank() == 0) std::printf("#    bytes   median us   bus GB/s\n");
        for (const std::size_t bytes : settings_.bytes)
            measure(bytes);
        print_ping_pong(*stage_, shared_, "after");
    }

  private:
    float* allocate(std::size_t bytes) {
        if (settings_.zero_copy) return static_cast<float*>(value_of(heap_->allocate(bytes)));
        return static_cast<float*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    }
    void release(float* data) {
        if (settings_.zero_copy) {
            heap_->free(data);
        } else {
            std::free(data);
        }
    }

    void allreduce(float* data, std::size_t count) {
        auto* const place = reinterpret_cast<std::byte*>(data);
        expect(stage_->allreduce({"allreduce", 0, Seconds(60)}, sum_, place, place, count));
    }

    // The collective on a vector whose part r is rank r's.
    void collective(float* data, std::size_t count) {
        const auto ranks = static_cast<std::size_t>(stage_->size());
        const std::string& name = settings_.collective;
        const NodeStage::Turn turn{name, 0, Seconds(60)};
        auto* const bytes = reinterpret_cast<std::byte*>(data);
        const std::size_t part = count / ranks;
        std::vector<std::span<std::byte>> parts;
        for (std::size_t rank = 0; rank < ranks; ++rank)
            parts.emplace_back(bytes + rank * part * sizeof(float), part * sizeof(float));
        auto* const accumulators = reinterpret_cast<std::byte*>(other_.data());
        if (name == "allreduce") {
            allreduce(data, count);
        } else if (name == "reduce_scatter") {
            const std::vector<std::size_t> counts(ranks, part);
            expect(stage_->reduce_scatter(turn, sum_, bytes, accumulators, counts));
        } else if (name == "allgather") {
            expect(stage_->allgather(turn, parts));
        } else if (name == "alltoall") {
            const std::vector<std::span<const std::byte>> out(parts.begin(), parts.end());
            std::vector<std::span<std::byte>> in;
            for (std::size_t rank = 0; rank < ranks; ++rank)
                in.emplace_back(accumulators + rank * part * sizeof(float), part * sizeof(float));
            expect(stage_->alltoall(turn, out, in));
        } else if (name == "broadcast") {
            expect(stage_->broadcast(turn, {bytes, count * sizeof(float)}, 0));
        } else {
            die("cannot use collective=" + name);
        }
    }

    void check(float* data, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            data[i] = static_cast<float>(i % 1000 + static_cast<std::size_t>(stage_->rank()));
        }
        allreduce(data, count);
        const int ranks = stage_->size();
        const int ranks_added = ranks * (ranks - 1) / 2;
        for (std::size_t i = 0; i < count; ++i) {
            const auto base = static_cast<int>(i % 1000);
            if (data[i] != static_cast<float>(base * ranks + ranks_added)) {
                die("a wrong sum");
            }
            data[i] = 0;
        }
    }

    void measure(std::size_t bytes) {
        const std::size_t count = bytes / sizeof(float);
        float* const data = allocate(bytes);
        check(data, count);
        other_.assign(count, 0);
        const int iterations =
            bytes <= (1U << 20) ? most_iterations
                                : static_cast<int>(std::max<std::size_t>(9, (2UL << 30) / bytes));
        const int warm_up = std::max(2, iterations / 20);
        float* const times = shared_.times[stage_->rank()];
        auto before = Time::now();
        for (int i = -warm_up; i < iterations; ++i) {
            collective(data, count);
            const auto after = Time::now();
            if (i >= 0) {
                times[i] = std::chrono::duration<float, std::micro>(after - before).count();
            }
            before = after;
        }
        expect(stage_->barrier({"barrier", 0, Seconds(60)}));
        if (stage_->rank() == 0) print(bytes, iterations);
        expect(stage_->barrier({"barrier", 0, Seconds(60)}));
        release(data);
    }

    void print(std::size_t bytes, int iterations) const {
        std::vector<float> slowest;
        for (int i = 0; i < iterations; ++i) {
            float time = 0;
            for (int rank = 0; rank < stage_->size(); ++rank) {
                time = std::max(time, shared_.times[rank][i]);
            }
            slowest.push_back(time);
        }
        const auto middle = slowest.begin() + iterations / 2;
        std::nth_element(slowest.begin(), middle, slowest.end());
        const double ranks = stage_->size();
        const double bandwidth =
            static_cast<double>(bytes) / *middle * 1e-3 * 2 * (ranks - 1) / ranks;
        std::printf("%10zu  %10.2f  %9.2f\n", bytes, static_cast<double>(*middle), bandwidth);
        std::fflush(stdout);
    }

    const Settings& settings_;
    Shared& shared_;
    const mpi_bridge::Reduction& sum_ = *mpi_bridge::find_reduction(MPIB_FLOAT32, MPIB_SUM);
    std::vector<float> other_;  // results that cannot be in place
    std::unique_ptr<SharedHeap> heap_;
    std::unique_ptr<NodeStage> stage_;
};

Settings parse(int argc, char** argv) {
    Settings settings;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        const auto equals = argument.find('=');
        if (equals == std::string::npos) die("expected name=value, got " + argument);
        const std::string name = argument.substr(0, equals);
        const char* at = argument.c_str() + equals + 1;
        if (name == "collective") {
            settings.collective = at;
            continue;
        }
        std::vector<std::size_t> values;
        for (char* end = nullptr; *at != '\0'; at = *end == ',' ? end + 1 : end) {
            values.push_back(std::strtoull(at, &end, 10));
            if (end == at) die("not a number in " + argument);
        }
        if (values.empty()) die("no value in " + argument);
        if (name == "ranks" && values[0] >= 1 && values[0] <= most_ranks) {
            settings.ranks = static_cast<int>(values[0]);
        } else if (name == "zero_copy") {
            settings.zero_copy = values[0] != 0;
        } else if (name == "piece") {
            settings.options.piece_bytes = values[0];
        } else if (name == "flat") {
            settings.options.flat_bytes = values[0];
        } else if (name == "bytes") {
            settings.bytes = values;
        } else {
            die("cannot use " + argument);
        }
    }
    return settings;
}

int run_ranks(const Settings& settings) {
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("no memory");
    auto* const shared = new (memory) Shared;
    const auto processors = bench::allowed_processors();
    std::printf("# %d ranks on %zu processors, %s, %s\n", settings.ranks, processors.size(),
                settings.zero_copy ? "zero copy" : "staged",
                mpi_bridge::reduction_instruction_set());
    std::fflush(stdout);
    for (int rank = 0; rank < settings.ranks; ++rank) {
        if (::fork() == 0) {
            bench::stay_on(processors[static_cast<std::size_t>(rank) % processors.size()]);
            Rank(settings, rank, *shared).run();
            std::_Exit(EXIT_SUCCESS);
        }
    }
    int result = EXIT_SUCCESS;
    for (int status = 0; ::wait(&status) > 0;) {
        if (status != 0) result = EXIT_FAILURE;
    }
    return result;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_ranks(parse(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "shm_stage_bench: %s\n", error.what());
        return EXIT_FAILURE;
    }
}

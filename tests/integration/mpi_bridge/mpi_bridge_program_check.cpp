// SPDX-License-Identifier: Apache-2.0
//
// To be started as at least two ranks. What a program has or does beside its calls must not matter.
//
//   mpi_bridge_program_check flush     subnormal numbers are flushed to zero on the last rank
//   mpi_bridge_program_check upward    the last rank rounds upward
//   mpi_bridge_program_check memory    a thread allocates and frees while another is in a barrier
//   mpi_bridge_program_check absent DOOR FILE  the last rank comes to the first collective when
//                                      FILE is there; DOOR: call, engine, set
//
// Prints one line on rank 0 when all is right; the first fault ends the rank with exit code 1.
#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

#include "mpi_bridge.h"
#include "mpi_bridge_engine.h"
#include "mpi_bridge_messages.h"

namespace {

int rank = 0;
int size = 0;

[[noreturn]] void stop(const std::string& what) {
    std::fprintf(stderr, "mpi_bridge_program_check: rank %d of %d: %s\n", rank, size, what.c_str());
    std::exit(1);
}

void must(mpib_status status, const char* call) {
    if (status != MPIB_OK) {
        stop(std::string(call) + ": " + mpib_status_name(status) + ": " + mpib_last_error());
    }
}

// ---- Floating-point modes ----------------------------------------------------------------------

void flush_subnormal_numbers() {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);  // FTZ and DAZ
#elif defined(__aarch64__)
    std::uint64_t mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    asm volatile("msr fpcr, %0" : : "r"(mode | 1U << 24));
#endif
}

// What the mode of this thread makes of a sum whose exact value is subnormal, and of one that must
// be rounded.
struct Mode {
    float subnormal = 0;
    float rounded = 0;
    bool operator==(const Mode&) const = default;
};

Mode mode_of_this_thread() {
    volatile float least = 1.1754944e-38F;
    volatile float less = -1.1754942e-38F;
    volatile float one = 1;
    volatile float little = 1e-10F;
    return {least + less, one + little};
}

struct Type {
    mpib_datatype datatype;
    std::size_t bytes;
    std::uint64_t low;  // bits of a number that keep it below or little above the least normal one
};
constexpr Type types[] = {{MPIB_FLOAT32, 4, 0x80ffffff},
                          {MPIB_FLOAT64, 8, 0x801fffffffffffff},
                          {MPIB_FLOAT16, 2, 0x87ff},
                          {MPIB_BFLOAT16, 2, 0x80ff}};

// In turns subnormal numbers and such that must be rounded when they are added.
std::vector<std::byte> numbers(const Type& type, std::size_t count, unsigned seed) {
    std::mt19937_64 random(seed * 1000 + static_cast<unsigned>(rank));
    std::vector<std::byte> bytes(count * type.bytes);
    const std::uint64_t exponent = std::uint64_t{1} << (8 * type.bytes - 3);
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t bits = random() & type.low;
        if (i % 2 == 1) bits |= exponent;
        std::memcpy(bytes.data() + i * type.bytes, &bits, type.bytes);
    }
    return bytes;
}

void compare(const void* result, std::size_t bytes, const std::string& what) {
    std::vector<std::byte> all(bytes * static_cast<std::size_t>(size));
    must(mpib_allgather(result, all.data(), bytes), "mpib_allgather");
    for (int other = 0; other < size; ++other) {
        if (std::memcmp(all.data() + static_cast<std::size_t>(other) * bytes, result, bytes) != 0)
            stop(what + ": the bits differ from those of rank " + std::to_string(other));
    }
}

void check_calls(const Type& type, std::size_t count) {
    const std::string what =
        "datatype " + std::to_string(type.datatype) + ", " + std::to_string(count) + " elements";
    const auto own = numbers(type, count, 1);
    std::vector<std::byte> result(own.size());
    must(mpib_allreduce(own.data(), result.data(), count, type.datatype, MPIB_SUM),
         "mpib_allreduce");
    compare(result.data(), result.size(), "allreduce, " + what);
    must(mpib_allreduce(own.data(), result.data(), count, type.datatype, MPIB_AVERAGE),
         "mpib_allreduce");
    compare(result.data(), result.size(), "average, " + what);

    auto* const shared = static_cast<std::byte*>(mpib_alloc(own.size()));
    if (shared == nullptr) stop(std::string("mpib_alloc: ") + mpib_last_error());
    std::copy(own.begin(), own.end(), shared);
    must(mpib_allreduce(shared, shared, count, type.datatype, MPIB_SUM), "mpib_allreduce");
    compare(shared, own.size(), "allreduce in shared memory, " + what);
    mpib_free(shared);

    // Each rank computes what the others get, so the sums are told to all.
    for (int root = 0; root < size; ++root) {
        std::fill(result.begin(), result.end(), std::byte{0});
        must(mpib_reduce(own.data(), result.data(), count, type.datatype, MPIB_SUM, root),
             "mpib_reduce");
        std::vector<std::byte> sums = result;
        must(mpib_broadcast(sums.data(), sums.size(), root), "mpib_broadcast");
        must(mpib_allreduce(own.data(), result.data(), count, type.datatype, MPIB_SUM),
             "mpib_allreduce");
        // Two addends have one sum, in whatever order.
        if (size == 2 && sums != result) stop("reduce to " + std::to_string(root) + ", " + what);
    }
}

void check_engine(const Type& type, std::size_t count, int step) {
    const std::string name = "x" + std::to_string(type.datatype) + "/" + std::to_string(count);
    const auto own = numbers(type, count, 2);
    std::vector<std::byte> result(own.size());
    const auto rows = static_cast<std::int64_t>(count);
    mpib_operation operation{};
    operation.struct_bytes = sizeof operation;
    operation.kind = MPIB_ALLREDUCE;
    operation.name = name.c_str();
    operation.send = own.data();
    operation.recv = result.data();
    operation.shape = &rows;
    operation.dimensions = 1;
    operation.datatype = type.datatype;
    operation.op = MPIB_SUM;
    must(mpib_call(&operation), "mpib_call");
    compare(result.data(), result.size(), "engine, step " + std::to_string(step) + ", " + name);
}

void check_modes(bool flush) {
    // Before the library starts threads, which inherit it.
    if (rank == size - 1) flush ? flush_subnormal_numbers() : void(std::fesetround(FE_UPWARD));
    const Mode before = mode_of_this_thread();
    for (const Type& type : types) {
        for (const std::size_t count : {1UL, 7UL, 300UL, 1024UL, 4097UL, 70001UL})
            check_calls(type, count);
    }
    for (int step = 0; step < 8; ++step) {
        for (const Type& type : types) {
            for (const std::size_t count : {1UL, 500UL, 40001UL})
                check_engine(type, count, step);
        }
    }
    if (mode_of_this_thread() != before) stop("the mode of the thread has changed");
    std::fesetround(FE_TONEAREST);
}

// ---- Memory ------------------------------------------------------------------------------------

mpib_message note(int peer, int& value) {
    mpib_message message{};
    message.struct_bytes = sizeof message;
    message.peer = peer;
    message.memory = &value;
    message.bytes = sizeof value;
    return message;
}

void finish(mpib_message_handle handle) {
    must(mpib_message_wait(handle, 0), "mpib_message_wait");
    must(mpib_message_release(handle), "mpib_message_release");
}

char state_of(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    return text.at(text.rfind(')') + 2);
}

// The others come to the barrier when rank 0 has told them to, which it does after it has allocated
// and freed memory.
void check_memory() {
    alarm(30);  // ends what would wait for ever
    int value = 7;
    mpib_message_handle handle = 0;
    if (rank == 0) {
        void* const first = mpib_alloc(1000);
        std::atomic<pid_t> thread{0};
        std::thread waiting([&thread] {
            thread = static_cast<pid_t>(syscall(SYS_gettid));
            must(mpib_barrier(), "mpib_barrier");
        });
        // It sleeps once it is in the barrier.
        while (thread == 0 || state_of(thread) != 'S')
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        void* const second = mpib_alloc(1000);
        if (first == nullptr || second == nullptr) stop(mpib_last_error());
        mpib_free(first);
        mpib_free(second);
        for (int other = 1; other < size; ++other) {
            const auto message = note(other, value);
            must(mpib_message_send(&message, &handle), "mpib_message_send");
            finish(handle);
        }
        waiting.join();
        return;
    }
    const auto message = note(0, value);
    must(mpib_message_receive(&message, &handle), "mpib_message_receive");
    finish(handle);
    must(mpib_barrier(), "mpib_barrier");
}

// ---- A rank that does not come -----------------------------------------------------------------

void await_file(const char* path) {
    while (access(path, F_OK) != 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void call_the_engine(int set) {
    float value = 1;
    const std::int64_t rows = 1;
    mpib_operation operation{};
    operation.struct_bytes = sizeof operation;
    operation.kind = MPIB_ALLREDUCE;
    operation.name = "first";
    operation.send = operation.recv = &value;
    operation.shape = &rows;
    operation.dimensions = 1;
    operation.datatype = MPIB_FLOAT32;
    operation.op = MPIB_SUM;
    operation.process_set = set;
    must(mpib_call(&operation), "mpib_call");
    if (value != static_cast<float>(size)) stop("the sum is wrong");
}

void check_absence(std::string_view door, const char* file) {
    if (rank == size - 1) await_file(file);
    if (door == "call") must(mpib_barrier(), "mpib_barrier");
    if (door == "engine") call_the_engine(MPIB_WORLD);
    if (door != "set") return;
    // A set that only its members know: what the last rank has not opened it cannot take part in.
    constexpr int set = MPIB_FIRST_PRIVATE_SET;
    std::vector<int> everybody;
    for (int each = 0; each < size; ++each)
        everybody.push_back(each);
    must(mpib_process_set_open(everybody.data(), size, set), "mpib_process_set_open");
    call_the_engine(set);
    must(mpib_process_set_close(set), "mpib_process_set_close");
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    const bool known =
        mode == "flush" || mode == "upward" || mode == "memory" || (mode == "absent" && argc == 4);
    if (!known) {
        std::fprintf(stderr,
                     "usage: mpi_bridge_program_check flush|upward|memory|absent DOOR FILE\n");
        return 2;
    }
    must(mpib_init(), "mpib_init");
    rank = mpib_rank();
    size = mpib_size();
    if (size < 2) stop("needs two ranks or more");
    if (mode == "flush" || mode == "upward") check_modes(mode == "flush");
    if (mode == "memory") check_memory();
    if (mode == "absent") check_absence(argv[2], argv[3]);
    if (rank == 0) {
        std::printf("mpi_bridge_program_check: %s, %d ranks, all right\n", argv[1], size);
    }
    must(mpib_finalize(), "mpib_finalize");
    return 0;
}

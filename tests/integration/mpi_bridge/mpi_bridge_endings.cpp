// SPDX-License-Identifier: Apache-2.0
//
// To be started as any number of ranks. How processes leave their job step:
//
//   mpi_bridge_endings cycles N   they initialise and finalise N times, and nothing may grow
//   mpi_bridge_endings signal S   the last rank raises signal S; the others must notice
//   mpi_bridge_endings throw      the last rank throws what nobody catches; likewise
//   mpi_bridge_endings wait       they print "ready" and wait to be ended from outside
//
// Exit codes: 0 all is well, 3 this rank noticed that another is gone, 1 anything else.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <unistd.h>

#include "mpi_bridge.h"

namespace {

constexpr int noticed = 3;
constexpr int settling_cycles = 10;  // caches and pools fill up meanwhile
constexpr unsigned long_enough = 60;

[[noreturn]] void stop(const std::string& what) {
    std::fprintf(stderr, "mpi_bridge_endings: rank %d: %s\n", mpib_rank(), what.c_str());
    std::exit(1);
}

void must(mpib_status status, const char* call) {
    if (status != MPIB_OK) stop(std::string(call) + ": " + mpib_last_error());
}

long entries(const char* directory, const std::string& prefix = "") {
    long count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
        count += entry.path().filename().string().starts_with(prefix) ? 1 : 0;
    return count;
}

struct Holdings {
    long descriptors = entries("/proc/self/fd");
    long threads = entries("/proc/self/task");
    long anonymous_kib = 0;  // without pages of files, which come and go as the kernel likes

    Holdings() {
        long all = 0;
        long resident = 0;
        long shared = 0;
        std::ifstream("/proc/self/statm") >> all >> resident >> shared;
        anonymous_kib = (resident - shared) * (sysconf(_SC_PAGESIZE) / 1024);
    }
};

// What the open files are, so that one that is left can be told.
std::string open_files() {
    std::string files;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        files += " " + std::filesystem::read_symlink(entry.path(), gone).string();
    }
    return files;
}

void must_not_grow(const char* what, long before, long after, long allowance) {
    if (after > before + allowance) {
        stop(std::string(what) + " grew from " + std::to_string(before) + " to " +
             std::to_string(after));
    }
}

void one_cycle(int number) {
    must(mpib_init(), "mpib_init");
    const int size = mpib_size();
    float value = static_cast<float>(mpib_rank() + number);
    must(mpib_allreduce(&value, &value, 1, MPIB_FLOAT32, MPIB_SUM), "mpib_allreduce");
    const int expected = size * (size - 1) / 2 + size * number;
    if (value != static_cast<float>(expected))
        stop("a wrong sum in cycle " + std::to_string(number));
    must(mpib_finalize(), "mpib_finalize");
    if (mpib_initialized() != 0) stop("still initialised after mpib_finalize");
}

int cycles(int count) {
    int number = 0;
    while (number < settling_cycles)
        one_cycle(number++);
    const Holdings before;
    while (number < count)
        one_cycle(number++);
    const Holdings after;
    if (after.descriptors > before.descriptors)
        std::fprintf(stderr, "mpi_bridge_endings: open files:%s\n", open_files().c_str());
    must_not_grow("the number of open files", before.descriptors, after.descriptors, 0);
    must_not_grow("the number of threads", before.threads, after.threads, 0);
    // Keys that were published cannot be taken back, so a little is left of every cycle.
    // A thread that meets another one in malloc() gets an arena of its own, sometimes late.
    constexpr long kib_of_chance = 2048;
    constexpr long kib_per_cycle = 16;
    must_not_grow("the memory in KiB", before.anonymous_kib, after.anonymous_kib,
                  kib_of_chance + (count - settling_cycles) * kib_per_cycle);
    if (const long left = entries("/dev/shm", "mpi_bridge."); left != 0) {
        // Ranks of this host may still be in their last cycle.
        sleep(1);
        if (entries("/dev/shm", "mpi_bridge.") != 0) stop("files are left in /dev/shm");
    }
    std::printf("mpi_bridge_endings: %d cycles, %ld KiB more\n", count,
                after.anonymous_kib - before.anonymous_kib);
    return 0;
}

// A rank that is alone has nobody to notice.
int others_notice(const std::string& mode, int signal) {
    must(mpib_init(), "mpib_init");
    must(mpib_set_timeout(long_enough), "mpib_set_timeout");
    // The last rank may be gone before the others have left this barrier; they may notice it here.
    const bool last = mpib_rank() == mpib_size() - 1;
    auto status = mpib_barrier();
    if (last || mode == "wait") must(status, "mpib_barrier");
    if (mode == "wait") {
        std::printf("ready\n");
        std::fflush(stdout);
        sleep(long_enough);
        stop("nobody ended this process");
    }
    if (last) {
        if (mode == "signal") std::raise(signal);
        if (mode == "throw") {
            std::thread([] { throw std::runtime_error("nobody catches this"); }).join();
        }
        sleep(long_enough);
        stop("this process did not end");
    }
    if (status == MPIB_OK) status = mpib_barrier();
    if (status != MPIB_ERROR_PEER_LOST) stop(std::string("got ") + mpib_status_name(status));
    std::printf("noticed: %s\n", mpib_last_error());
    return noticed;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    const int number = argc > 2 ? std::atoi(argv[2]) : 0;
    if (mode == "cycles" && number > settling_cycles) return cycles(number);
    if (mode == "signal" || mode == "throw" || mode == "wait") return others_notice(mode, number);
    std::fprintf(stderr, "usage: mpi_bridge_endings cycles N | signal S | throw | wait\n");
    return 1;
}

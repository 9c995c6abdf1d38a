// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gpu/cuda/library.hpp"
#include "gpu/device_group.hpp"

namespace mpi_bridge_test {

// The stand-in's own functions, and those of CUDA that only tests call.
class Standin {
  public:
    static Standin& get() {
        static Standin standin;
        return standin;
    }

    void (*configure)(const char* text);
    long (*count)(const char* call);
    long (*live_events)();
    long (*live_streams)();
    long (*live_memory)();
    mpi_bridge::cuda::Result (*host_function)(mpi_bridge::cuda::Stream, void (*)(void*), void*);
    mpi_bridge::cuda::Result (*fill)(mpi_bridge::cuda::Address, unsigned char, std::size_t,
                                     mpi_bridge::cuda::Stream);
    mpi_bridge::cuda::Result (*begin_capture)(mpi_bridge::cuda::Stream, int mode);
    mpi_bridge::cuda::Result (*end_capture)(mpi_bridge::cuda::Stream, void** graph);

  private:
    Standin() {
        const char* path = std::getenv("MPI_BRIDGE_CUDA_LIBRARY");
        library_ = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
        find(configure, "batchai_standin_configure");
        find(count, "batchai_standin_count");
        find(live_events, "batchai_standin_live_events");
        find(live_streams, "batchai_standin_live_streams");
        find(live_memory, "batchai_standin_live_memory");
        find(host_function, "cuLaunchHostFunc");
        find(fill, "cuMemsetD8Async");
        find(begin_capture, "cuStreamBeginCapture_v2");
        find(end_capture, "cuStreamEndCapture");
    }
    template <typename Function>
    void find(Function*& function, const char* name) {
        function =
            library_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library_, name));
        if (function != nullptr) return;
        std::fprintf(stderr, "the stand-in has no %s; is MPI_BRIDGE_CUDA_LIBRARY set?\n", name);
        std::exit(1);
    }

    void* library_ = nullptr;
};

// Holds a stream until it is let go.
class Gate {
  public:
    explicit Gate(mpi_bridge::DeviceStream stream) {
        Standin::get().host_function(
            static_cast<mpi_bridge::cuda::Stream>(stream.handle),
            [](void* gate) {
                while (!static_cast<Gate*>(gate)->open_)
                    std::this_thread::sleep_for(std::chrono::microseconds(100));
                static_cast<Gate*>(gate)->passed_ = true;
            },
            this);
    }
    ~Gate() {
        open();
        while (!passed_)
            std::this_thread::yield();
    }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    void open() { open_ = true; }

  private:
    std::atomic<bool> open_{false};
    std::atomic<bool> passed_{false};
};

// Runs the body once for each seed, or for the one in BATCHAI_STANDIN_SEED alone. What fails says
// which seed it was.
inline void with_seeds(int seeds, const std::string& plan, const std::function<void()>& body) {
    const char* only = std::getenv("BATCHAI_STANDIN_SEED");
    const int first = only == nullptr ? 1 : std::atoi(only);
    const int last = only == nullptr ? seeds : first;
    for (int seed = first; seed <= last && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("BATCHAI_STANDIN_SEED=" + std::to_string(seed) + " repeats this alone");
        Standin::get().configure((plan + " seed=" + std::to_string(seed)).c_str());
        body();
    }
}

// Ends the program if the body does not come to an end: threads that wait for ever cannot be
// stopped in any other way.
inline void must_end(std::chrono::seconds limit, const std::function<void()>& body) {
    std::packaged_task<void()> task(body);
    auto done = task.get_future();
    std::thread thread(std::move(task));
    if (done.wait_for(limit) != std::future_status::ready) {
        std::fprintf(stderr, "%s did not come to an end within %ld s\n",
                     testing::UnitTest::GetInstance()->current_test_info()->name(),
                     static_cast<long>(limit.count()));
        _exit(3);
    }
    thread.join();
    done.get();
}

}  // namespace mpi_bridge_test

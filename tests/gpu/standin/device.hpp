// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "gpu/cuda/library.hpp"
#include "stream.hpp"

namespace standin {

namespace cuda = mpi_bridge::cuda;

// CUDA's numbers for what the stand-in answers.
constexpr int invalid_value = 1;
constexpr int out_of_memory = 2;
constexpr int no_device = 100;
constexpr int invalid_device = 101;
constexpr int invalid_context = 201;
constexpr int no_binary = 209;
constexpr int peer_access_unsupported = 217;
constexpr int invalid_handle = 400;
constexpr int not_found = 500;
constexpr int illegal_address = 700;
constexpr int launch_failed = 719;
constexpr int capture_unsupported = 900;
constexpr int capture_invalidated = 901;
constexpr int capture_unmatched = 903;
constexpr int capture_isolation = 905;
constexpr int captured_event = 907;
constexpr int capture_wrong_thread = 908;

struct Device {
    explicit Device(int its_ordinal);

    const int ordinal;
    // A fault of a kernel, which ends the device for this process: every later call returns it.
    std::atomic<int> fault{0};

    Stream& new_stream(Stream::Kind kind);
    Stream& legacy() { return *legacy_; }
    // Where other streams stand that this one's next work comes after.
    [[nodiscard]] std::vector<PointRef> ends_that_bind(const Stream& stream);
    // Waits for everything that all streams hold now, as calls do that change what is mapped.
    void wait_until_idle();

    // Lets this device reach the other one's memory. Returns false if it could before.
    bool connect(const Device& other);
    [[nodiscard]] bool reaches(const Device& other);

    // A kernel of NCCL needs a place on the device, and keeps it while it waits for its peers.
    // Returns false if `stop` becomes true before there is a place.
    bool take_slot(const std::atomic<bool>& stop);
    void free_slot();

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Stream> streams_;
    Stream* legacy_ = nullptr;
    std::set<int> peers_;
    int slots_in_use_ = 0;
};

// How many devices the process sees.
int visible_devices();

// Null if there is no such device.
Device* device_at(int ordinal);

// The device whose context is current in this thread; null: none.
Device* current_device();

// What every entry point begins with: the error that is planned for this call or that has ended the
// current device.
cuda::Result enter(const char* call);
// The same for calls that change what is mapped. They are forbidden while another thread's capture
// could be spoilt, and wait for the device.
cuda::Result enter_unsafe(const char* call);

[[nodiscard]] inline cuda::Result result(int code) {
    return static_cast<cuda::Result>(code);
}

// The stream of a handle; the current device's legacy stream for null and 1. Null without a current
// context. Ends the process if the handle is of no stream or the stream was destroyed.
Stream* stream_of(cuda::Stream handle);

}  // namespace standin

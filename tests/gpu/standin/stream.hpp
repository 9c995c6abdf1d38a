// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace standin {

struct Device;
struct Capture;

// The end of one piece of work in a stream.
class Point {
  public:
    void reach();
    [[nodiscard]] bool reached() const;
    void wait() const;
    [[nodiscard]] std::chrono::steady_clock::time_point when() const;

  private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::optional<std::chrono::steady_clock::time_point> when_;
};
using PointRef = std::shared_ptr<Point>;

// A queue of work and the thread that does it, after random delays, in order.
class Stream {
  public:
    enum class Kind { legacy, blocking, non_blocking };
    Stream(Device& device, Kind kind, int number);

    Device& device;
    const Kind kind;

    // Puts work at the end and returns at once. The point is reached when it is done. The legacy
    // stream and the blocking streams of a device wait for each other. Work that throws
    // IllegalAddress ends the device.
    PointRef put(std::function<void()> work);
    // For NCCL's own threads, while the stream is theirs.
    PointRef put_as_nccl(std::function<void()> work);
    // The end of what the stream holds now; null if it never held anything.
    [[nodiscard]] PointRef last() const;

    // While a call of NCCL goes on in the background, nobody else may put anything into the stream,
    // because it could come before or after NCCL's kernel.
    void begin_nccl();
    void end_nccl();

    // Lets the thread end when all is done.
    void retire();

    // Null unless the stream is being captured.
    [[nodiscard]] std::shared_ptr<Capture> capture() const;
    void set_capture(std::shared_ptr<Capture> capture);

  private:
    struct Work {
        std::function<void()> body;
        PointRef end;
    };
    PointRef add(std::function<void()> work);
    void serve();

    const int number_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> queue_;
    PointRef last_;
    std::shared_ptr<Capture> capture_;
    int nccl_calls_ = 0;
    bool retired_ = false;
};

}  // namespace standin

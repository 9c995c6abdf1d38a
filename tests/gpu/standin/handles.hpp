// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "device.hpp"
#include "plan.hpp"

// What CUDA's handles point to.
namespace mpi_bridge::cuda {

struct ContextRecord {
    standin::Device* device = nullptr;
};
struct StreamRecord {
    standin::Stream* stream = nullptr;
};
struct EventRecord {
    standin::Device* device = nullptr;
    bool timed = false;
    std::mutex mutex;
    standin::PointRef latest;                   // null: never recorded
    std::shared_ptr<standin::Capture> capture;  // of the latest record, if it was captured
};

}  // namespace mpi_bridge::cuda

namespace standin {

// The handles of one type that exist. Records are kept to the end, so that a handle that was
// destroyed is known as such.
template <typename Record>
class Handles {
  public:
    explicit Handles(const char* what) : what_(what) {}

    Record* add(std::unique_ptr<Record> record) {
        const std::lock_guard lock(mutex_);
        Record* const handle = record.get();
        records_.emplace(handle, Entry{std::move(record), true});
        ++live_;
        return handle;
    }
    Record& at(Record* handle) {
        const std::lock_guard lock(mutex_);
        const auto found = records_.find(handle);
        if (found == records_.end()) misuse(std::string("this is no ") + what_);
        if (!found->second.lives) misuse(std::string(what_) + " was destroyed");
        return *handle;
    }
    void remove(Record* handle) {
        static_cast<void>(at(handle));
        const std::lock_guard lock(mutex_);
        records_.at(handle).lives = false;
        --live_;
    }
    long live() {
        const std::lock_guard lock(mutex_);
        return live_;
    }

  private:
    struct Entry {
        std::unique_ptr<Record> record;
        bool lives = false;
    };
    const char* what_;
    std::mutex mutex_;
    std::unordered_map<Record*, Entry> records_;
    long live_ = 0;
};

Handles<cuda::StreamRecord>& streams();
Handles<cuda::EventRecord>& events();

}  // namespace standin

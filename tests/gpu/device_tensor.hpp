// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_fixture.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge_test {

// A vector of floats on the device, or, for a rank without one, on the host.
class Tensor {
  public:
    Tensor(std::string name, mpi_bridge::CudaQueue* queue, std::vector<float> values)
        : name_(std::move(name)), queue_(queue), values_(std::move(values)), recv_(values_.size()) {
        shape_ = static_cast<std::int64_t>(values_.size());
        if (queue != nullptr) {
            on_device_.emplace(*queue, bytes_of(values_));
            result_.emplace(*queue, std::vector<std::byte>(values_.size() * sizeof(float)));
        }
    }

    const mpib_operation& operation(mpib_kind kind, bool with_recv = true) {
        made_ = {};
        made_.struct_bytes = sizeof made_;
        made_.kind = kind;
        made_.name = name_.c_str();
        made_.datatype = MPIB_FLOAT32;
        made_.op = MPIB_SUM;
        made_.shape = &shape_;
        made_.dimensions = 1;
        made_.flags = MPIB_DEVICE;
        made_.send = queue_ != nullptr ? static_cast<void*>(on_device_->at()) : values_.data();
        if (with_recv)
            made_.recv = queue_ != nullptr ? static_cast<void*>(result_->at()) : recv_.data();
        if (queue_ != nullptr) made_.stream = queue_->stream().handle;
        return made_;
    }
    [[nodiscard]] std::vector<float> result() const {
        return queue_ != nullptr ? values_of<float>(result_->content()) : recv_;
    }

  private:
    std::string name_;
    mpi_bridge::CudaQueue* queue_;
    std::vector<float> values_;
    std::vector<float> recv_;
    std::int64_t shape_ = 0;
    std::optional<DeviceBytes> on_device_;
    std::optional<DeviceBytes> result_;
    mpib_operation made_{};
};

}  // namespace mpi_bridge_test

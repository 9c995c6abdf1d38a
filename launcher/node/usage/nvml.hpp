// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <vector>

#include "base/error.hpp"
#include "record/usage.hpp"

namespace batchai::node {

// NVIDIA's management library of the node, libnvidia-ml.so.1, which is part of the driver. It is
// loaded only in jobs that have GPUs.
class Nvml {
  public:
    // An error says why there is none. Only the GPUs with these numbers (/dev/nvidiaN) are read.
    [[nodiscard]] static base::Result<Nvml> open(const std::vector<int>& numbers);
    Nvml(Nvml&&) noexcept;
    Nvml& operator=(Nvml&&) noexcept;
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;
    ~Nvml();

    // A value that the driver does not tell is left out.
    [[nodiscard]] std::vector<record::GpuUsage> read() const;

  private:
    struct Library;
    explicit Nvml(std::unique_ptr<Library> library);

    std::unique_ptr<Library> library_;
};

}  // namespace batchai::node

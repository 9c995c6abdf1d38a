// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "gpu/cuda/library.hpp"
#include "gpu/wire/codec.hpp"

namespace mpi_bridge {

// One GPU of this process: its primary context, which frameworks use too, and the kernels loaded
// into it. It is made once per device and kept to the end of the process, because a framework may
// still run its own work in the context while this library is shut down. Any thread may use it.
class CudaDevice {
  public:
    // The first call loads the driver. The text of a failure names what is missing.
    [[nodiscard]] static Outcome<CudaDevice*> get(int ordinal);

    CudaDevice(const CudaDevice&) = delete;
    CudaDevice& operator=(const CudaDevice&) = delete;

    // While it lives, driver calls of this thread refer to the device, and do not spoil a CUDA
    // graph that this thread or another one captures.
    class Current {
      public:
        explicit Current(const CudaDevice& device)
            : cuda_(device.cuda_), active_(cuda_.context_push(device.context_) == cuda::success) {
            static_cast<void>(cuda_.exchange_capture_mode(&capture_mode_));
        }
        ~Current() {
            static_cast<void>(cuda_.exchange_capture_mode(&capture_mode_));
            cuda::Context popped = nullptr;
            if (active_) static_cast<void>(cuda_.context_pop(&popped));
        }
        Current(const Current&) = delete;
        Current& operator=(const Current&) = delete;

      private:
        const cuda::Library& cuda_;
        bool active_;
        int capture_mode_ = cuda::capture_mode_relaxed;  // later the thread's own
    };

    [[nodiscard]] const cuda::Library& cuda() const { return cuda_; }
    [[nodiscard]] int ordinal() const { return ordinal_; }
    [[nodiscard]] int capability() const { return capability_; }  // 90 for 9.0
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const std::string& bus_id() const { return bus_id_; }
    [[nodiscard]] const cuda::Uuid& uuid() const { return uuid_; }

    // Returns the kernel; it is compiled at first use if the library holds no code for this device.
    [[nodiscard]] Outcome<cuda::Function> kernel(Codec codec, Way way);

    // Loads the kernels that training uses, if they are not loaded yet. Loading one later may wait
    // until the device is idle, so for another library's kernel that waits for another rank. Only
    // calls of the driver fail here: many operations need no kernel, so that there is none, and
    // NVRTC is missing, is reported when one is needed.
    [[nodiscard]] Done load_usual_kernels();

    // Where the kernels' code has come from so far: "built in", "NVRTC" or "not loaded yet".
    [[nodiscard]] std::string kernel_origin() const;

  private:
    struct Kernels;
    explicit CudaDevice(const cuda::Library& cuda, int ordinal);
    ~CudaDevice() = default;
    [[nodiscard]] Done start();
    [[nodiscard]] Done load_built_in();

    // For these, the mutex of the kernels must be held, and the device must be current.
    [[nodiscard]] bool has_built_in();
    [[nodiscard]] Outcome<cuda::Module> module_of(Codec codec);
    [[nodiscard]] Outcome<cuda::Function> function_of(Codec codec, Way way);
    // Compiles their kernels, at the same time, and loads those that can be compiled.
    [[nodiscard]] Done load_compiled(std::span<const Codec> codecs);

    // Needs neither.
    [[nodiscard]] Outcome<std::vector<char>> compile(Codec codec) const;

    const cuda::Library& cuda_;
    int ordinal_;
    int capability_ = 0;
    std::string name_;
    std::string bus_id_;
    cuda::Uuid uuid_{};
    cuda::Context context_ = nullptr;
    std::unique_ptr<Kernels> kernels_;
};

}  // namespace mpi_bridge

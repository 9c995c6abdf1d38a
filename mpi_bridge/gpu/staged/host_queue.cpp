// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "gpu/staged/host_kernels.hpp"
#include "gpu/work_queue.hpp"

namespace mpi_bridge {
namespace {

constexpr std::align_val_t host_alignment{64};

class HostQueue final : public WorkQueue {
  public:
    [[nodiscard]] Outcome<Noted> note(DeviceStream /*other*/) override { return Noted{}; }
    [[nodiscard]] Done after(Noted /*noted*/) override { return {}; }
    void forget(Noted /*noted*/) override {}
    [[nodiscard]] Outcome<Mark> mark() override { return Mark{++marks_}; }
    [[nodiscard]] Outcome<bool> reached(Mark /*mark*/) override { return true; }
    [[nodiscard]] Done hold(DeviceStream /*other*/, Mark /*mark*/) override { return {}; }

    [[nodiscard]] Done launch(Codec codec, Way way, const kernels::Arguments& arguments) override {
        run_on_host(codec, way, arguments);
        return {};
    }
    [[nodiscard]] Done copy(void* to, const void* from, std::size_t bytes) override {
        if (bytes != 0) std::memcpy(to, from, bytes);
        return {};
    }

    [[nodiscard]] Outcome<Memory> tensor_memory(std::size_t bytes) override {
        void* memory = ::operator new(bytes, host_alignment, std::nothrow);
        if (memory == nullptr) {
            return fail(MPIB_ERROR_INTERNAL,
                        fmt::format("no host memory left for {} bytes of a bucket", bytes));
        }
        return Memory(static_cast<std::byte*>(memory),
                      [](std::byte* at) { ::operator delete(at, host_alignment); });
    }
    [[nodiscard]] Outcome<Memory> host_memory(std::size_t bytes) override {
        return tensor_memory(bytes);
    }
    [[nodiscard]] Outcome<Memory> ordered_memory(std::size_t bytes) override {
        return tensor_memory(bytes);
    }
    [[nodiscard]] Outcome<Memory> result_memory(std::size_t bytes,
                                                DeviceStream /*stream*/) override {
        return tensor_memory(bytes);
    }
    [[nodiscard]] Outcome<Memory> copy_of(std::span<const std::byte> content) override {
        auto memory = tensor_memory(content.size());
        if (memory && !content.empty()) std::memcpy(memory->get(), content.data(), content.size());
        return memory;
    }
    [[nodiscard]] DeviceStream stream() const override { return {}; }

  private:
    std::uint64_t marks_ = 0;
};

}  // namespace

std::unique_ptr<WorkQueue> make_host_queue() {
    return std::make_unique<HostQueue>();
}

}  // namespace mpi_bridge

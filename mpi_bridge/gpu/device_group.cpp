// SPDX-License-Identifier: Apache-2.0
//
// How a group of ranks finds out what it can use.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gpu/cuda_queue.hpp"
#include "gpu/device.hpp"
#include "gpu/host_queue.hpp"
#include "gpu/nccl_group.hpp"
#include "gpu/nccl_library.hpp"
#include "gpu/placement.hpp"
#include "gpu/staged_group.hpp"

namespace mpi_bridge {
namespace {

template <std::size_t Size>
void copy_text(std::array<char, Size>& to, std::string_view text) {
    const std::size_t length = std::min(text.size(), Size - 1);
    std::copy_n(text.begin(), length, to.begin());
}

bool is_one(const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && std::strcmp(value, "1") == 0;
}

Outcome<DeviceCard> own_card(const DeviceGroupOptions& options, const CudaDevice* device) {
    DeviceCard card;
    card.wanted_path = static_cast<int>(options.path);
    std::string boot;
    if (!std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot)) {
        return fail(MPIB_ERROR_INTERNAL, fmt::format("{}, rank {}: cannot read "
                                                     "/proc/sys/kernel/random/boot_id",
                                                     options.name, options.rank));
    }
    copy_text(card.kernel, boot);
    if (device == nullptr) return card;
    card.has_device = 1;
    copy_text(card.bus_id, device->bus_id());
    std::ranges::copy(device->uuid().bytes, card.uuid.begin());
    card.shared_gpu_enabled = is_one("NCCL_MULTI_RANK_GPU_ENABLE") ? 1 : 0;
    // Not loaded where it is not wanted: NCCL has hundreds of megabytes.
    if (options.path == DevicePath::staged) return card;
    auto nccl = nccl::library();
    if (nccl) {
        card.nccl_version = (*nccl)->version;
    } else {
        copy_text(card.no_nccl, nccl.error().text);
    }
    return card;
}

Outcome<CudaDevice*> own_device(const DeviceGroupOptions& options) {
    if (options.device < 0) return nullptr;
    return CudaDevice::get(options.device);
}

Outcome<std::unique_ptr<WorkQueue>> make_queue(CudaDevice* device) {
    if (device == nullptr) return make_host_queue();
    auto queue = CudaQueue::open(*device);
    if (!queue) return pass_on(std::move(queue));
    return std::move(*queue);
}

Outcome<std::unique_ptr<DeviceGroup>> connect(const DeviceGroupOptions& options,
                                              Placement placement, CudaDevice* device) {
    if (placement.path == DevicePath::nccl) {
        auto nccl = nccl::library();
        if (!nccl) return pass_on(std::move(nccl));
        return NcclGroup::open(**nccl, *device, options);
    }
    auto outbound = make_queue(device);
    if (!outbound) return pass_on(std::move(outbound));
    auto inbound = make_queue(device);
    if (!inbound) return pass_on(std::move(inbound));
    return std::make_unique<StagedGroup>(options, std::move(placement.why), std::move(*outbound),
                                         std::move(*inbound));
}

// How connecting went on one rank.
struct Report {
    int status = MPIB_OK;
    std::array<char, 508> text{};
};

// Fails on all ranks where it has failed on one, with the text of the first such rank.
Done all_connected(const DeviceGroupOptions& options, const Failure* own) {
    Report report;
    if (own != nullptr) {
        report.status = own->status;
        copy_text(report.text, own->text);
    }
    std::vector<Report> reports(static_cast<std::size_t>(options.size));
    auto told = options.allgather(std::as_bytes(std::span(&report, 1)),
                                  std::as_writable_bytes(std::span(reports)));
    if (!told) return told;
    const auto bad =
        std::ranges::find_if(reports, [](const Report& each) { return each.status != MPIB_OK; });
    if (bad == reports.end()) return {};
    return fail(static_cast<mpib_status>(bad->status), bad->text.data());
}

}  // namespace

Outcome<int> device_of(const void* memory) {
    auto cuda = cuda::library();
    if (!cuda) return -1;
    unsigned type = 0;
    int ordinal = -1;
    const auto address = static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(memory));
    // Memory that CUDA has never seen is no failure but an invalid value.
    if ((*cuda)->pointer_attribute(&type, cuda::memory_type, address) != cuda::success ||
        type != cuda::memory_type_device) {
        return -1;
    }
    auto done = (*cuda)->check((*cuda)->pointer_attribute(&ordinal, cuda::device_ordinal, address),
                               "cuPointerGetAttribute");
    if (!done) return pass_on(std::move(done));
    return ordinal;
}

int current_device() {
    auto cuda = cuda::library();
    cuda::Device device = -1;
    if (!cuda || (*cuda)->context_device(&device) != cuda::success) return -1;
    return device;
}

Outcome<std::unique_ptr<DeviceGroup>> DeviceGroup::open(DeviceGroupOptions options) {
    auto device = own_device(options);
    auto card = device ? own_card(options, *device) : tl::unexpected(device.error());
    if (!card) {
        const std::string why = card.error().text;
        card = DeviceCard{};
        copy_text(card->fault, why);
    }
    std::vector<DeviceCard> cards(static_cast<std::size_t>(options.size));
    auto told = options.allgather(std::as_bytes(std::span(&*card, 1)),
                                  std::as_writable_bytes(std::span(cards)));
    if (!told) return pass_on(std::move(told));
    auto placement = place(cards);
    if (!placement) {
        placement.error().text = fmt::format("{}: {}", options.name, placement.error().text);
        return pass_on(std::move(placement));
    }
    auto group = connect(options, std::move(*placement), *device);
    auto connected = all_connected(options, group ? nullptr : &group.error());
    if (!connected) return pass_on(std::move(connected));
    return group;
}

}  // namespace mpi_bridge

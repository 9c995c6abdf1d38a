// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a group find out which path they can use.
#include "gpu/device_group.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/environment.hpp"
#include "core/this_host.hpp"
#include "gpu/cuda/queue.hpp"
#include "gpu/nccl/group.hpp"
#include "gpu/nccl/library.hpp"
#include "gpu/placement.hpp"
#include "gpu/staged/group.hpp"
#include "gpu/work_queue.hpp"

namespace mpi_bridge {
namespace {

template <std::size_t Size>
void copy_text(std::array<char, Size>& to, std::string_view text) {
    const std::size_t length = std::min(text.size(), Size - 1);
    std::copy_n(text.begin(), length, to.begin());
}

Outcome<DeviceCard> own_card(const DeviceGroupOptions& options, const CudaDevice* device) {
    DeviceCard card;
    card.wanted_path = static_cast<int>(options.path);
    const std::string boot = boot_id();
    if (boot.empty()) {
        return fail(MPIB_ERROR_INTERNAL, fmt::format("{}, rank {}: cannot read "
                                                     "/proc/sys/kernel/random/boot_id",
                                                     options.name, options.rank));
    }
    const std::string named = process_environment("NCCL_HOSTID").value_or("");
    copy_text(card.host, named.empty() ? boot : named);
    if (device == nullptr) return card;
    card.has_device = 1;
    copy_text(card.bus_id, device->bus_id());
    std::ranges::copy(device->uuid().bytes, card.uuid.begin());
    card.shared_gpu_enabled = process_environment("NCCL_MULTI_RANK_GPU_ENABLE") == "1" ? 1 : 0;
    // NCCL has hundreds of megabytes, so it is not loaded if it is not wanted.
    if (options.path == DevicePath::staged) return card;
    // NCCL's environment overrides what a communicator is asked to be.
    const std::string blocking = process_environment("NCCL_COMM_BLOCKING").value_or("");
    if (!blocking.empty() && blocking != "0") {
        copy_text(card.no_nccl, fmt::format("NCCL_COMM_BLOCKING={} would let a call of NCCL wait "
                                            "for ever for a rank that is lost; unset it",
                                            blocking));
        return card;
    }
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
    return TRY(CudaQueue::open(*device));
}

Outcome<std::unique_ptr<DeviceGroup>> connect(const DeviceGroupOptions& options,
                                              Placement placement, CudaDevice* device) {
    if (placement.path == DevicePath::nccl) {
        const auto nccl = TRY(nccl::library());
        return NcclGroup::open(*nccl, *device, options);
    }
    auto outbound = TRY(make_queue(device));
    auto inbound = TRY(make_queue(device));
    auto group = std::make_unique<StagedGroup>(options, std::move(placement.why),
                                               std::move(outbound), std::move(inbound));
    if (device != nullptr) TRY(device->load_usual_kernels());
    TRY(group->prepare());
    return group;
}

// The result of a step on one rank.
struct Report {
    int status = MPIB_OK;
    std::array<char, 508> text{};
};

}  // namespace

Done agree_on(const DeviceGroupOptions& options, const Done& own) {
    Report report;
    if (!own) {
        report.status = own.error().status;
        copy_text(report.text, own.error().text);
    }
    std::vector<Report> reports(static_cast<std::size_t>(options.size));
    TRY(options.allgather(std::as_bytes(std::span(&report, 1)),
                          std::as_writable_bytes(std::span(reports))));
    const auto bad =
        std::ranges::find_if(reports, [](const Report& each) { return each.status != MPIB_OK; });
    if (bad == reports.end()) return {};
    const std::string text = bad->text.data();
    const auto status = static_cast<mpib_status>(bad->status);
    if (text.starts_with(options.name)) return fail(status, text);
    return fail(status, fmt::format("{}, rank {}: {}", options.name, bad - reports.begin(), text));
}

Outcome<int> device_of(const void* memory) {
    auto cuda = cuda::library();
    if (!cuda) return -1;
    unsigned type = 0;
    int ordinal = -1;
    const auto address = static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(memory));
    const auto known = (*cuda)->pointer_attribute(&type, cuda::memory_type, address);
    // So the driver answers for memory that it does not know. After any other error, memory of a
    // device must not be taken for the host's.
    if (known == cuda::invalid_value || known == cuda::invalid_context) return -1;
    TRY((*cuda)->check(known, "cuPointerGetAttribute"));
    if (type != cuda::memory_type_device) return -1;
    TRY((*cuda)->check((*cuda)->pointer_attribute(&ordinal, cuda::device_ordinal, address),
                       "cuPointerGetAttribute"));
    return ordinal;
}

Outcome<bool> is_captured(DeviceStream stream) {
    // The legacy default stream is never captured.
    if (stream.handle == nullptr) return false;
    const auto cuda = TRY(cuda::library());
    int status = cuda::not_captured;
    TRY(cuda->check(cuda->stream_is_capturing(static_cast<cuda::Stream>(stream.handle), &status),
                    "cuStreamIsCapturing"));
    return status != cuda::not_captured;
}

int current_device() {
    return cuda::current_device().value_or(-1);
}

int device_count() {
    const auto cuda = cuda::library();
    int count = 0;
    if (!cuda || (*cuda)->device_count(&count) != cuda::success) return 0;
    return count;
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
    TRY(options.allgather(std::as_bytes(std::span(&*card, 1)),
                          std::as_writable_bytes(std::span(cards))));
    auto placement = place(cards);
    if (!placement) {
        placement.error().text = fmt::format("{}: {}", options.name, placement.error().text);
        return pass_on(std::move(placement));
    }
    auto group = connect(options, std::move(*placement), *device);
    TRY(agree_on(options, group ? Done() : tl::unexpected(group.error())));
    return group;
}

}  // namespace mpi_bridge

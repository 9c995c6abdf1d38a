// SPDX-License-Identifier: Apache-2.0
//
// What the GPU part costs, as a Markdown table on standard output: pack and unpack beside the
// device's own copy, a group over NCCL beside NCCL alone, and the host-staged path.
#include <algorithm>
#include <cstdio>
#include <functional>

#include <fmt/format.h>

#include "device_fixture.hpp"
#include "gpu/bucket.hpp"
#include "gpu/nccl/communicator.hpp"
#include "gpu/nccl/library.hpp"
#include "timing.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

// Seconds on the device from before to after `work`, which is put into the queue `repeats` times in
// a row, so that the launches' latency hides behind the work.
double device_seconds(CudaDevice& device, CudaQueue& queue, int repeats,
                      const std::function<void()>& work) {
    const CudaDevice::Current current(device);
    const cuda::Library& cuda = device.cuda();
    auto* stream = static_cast<cuda::Stream>(queue.stream().handle);
    cuda::Event begin = nullptr;
    cuda::Event end = nullptr;
    must(cuda.check(cuda.event_create(&begin, 0), "cuEventCreate"));
    must(cuda.check(cuda.event_create(&end, 0), "cuEventCreate"));
    std::vector<double> times;
    for (int round = 0; round < warm_ups + rounds_of(11); ++round) {
        must(cuda.check(cuda.event_record(begin, stream), "cuEventRecord"));
        for (int i = 0; i < repeats; ++i)
            work();
        must(cuda.check(cuda.event_record(end, stream), "cuEventRecord"));
        must(cuda.check(cuda.stream_synchronize(stream), "cuStreamSynchronize"));
        float milliseconds = 0;
        must(cuda.check(cuda.event_elapsed(&milliseconds, begin, end), "cuEventElapsedTime"));
        if (round >= warm_ups) times.push_back(milliseconds / 1e3 / repeats);
    }
    cuda.event_destroy(begin);
    cuda.event_destroy(end);
    return median(times);
}

// Sizes as a network has them: many small tensors, few large ones; `total` bytes together.
std::vector<std::size_t> tensor_counts(std::size_t total, std::size_t element_bytes) {
    std::vector<std::size_t> counts;
    std::size_t left = total / element_bytes;
    for (std::size_t i = 0; left != 0 && i < 100; ++i) {
        const std::size_t count = i % 2 == 0 ? total / element_bytes / 60 + i : 64 * (1 + i % 16);
        counts.push_back(std::min(count, left));
        left -= counts.back();
    }
    if (left != 0) counts.push_back(left);
    return counts;
}

void measure_packing(CudaDevice& device, CudaQueue& queue, Codec codec, std::size_t total) {
    const CodecShape shape = shape_of(codec);
    const auto counts = tensor_counts(total, shape.tensor_bytes);
    const DeviceBytes tensors(queue, total + 4096 * counts.size());
    std::vector<DevicePart> parts;
    std::size_t at = 0;
    for (const std::size_t count : counts) {
        parts.push_back({tensors.at(at), tensors.at(at), count});
        at += (count * shape.tensor_bytes + 511) / 512 * 512;  // as frameworks allocate
    }
    const BucketLayout layout = lay_out(parts);
    const DeviceBytes bucket(queue, layout.elements * shape.wire_bytes);
    const DeviceBytes other(queue, total);
    kernels::Arguments arguments{};
    arguments.bucket = reinterpret_cast<std::uintptr_t>(bucket.at());
    arguments.factor = 1;
    arguments.divisor = 1;

    const double copy = device_seconds(device, queue, 20,
                                       [&] { must(queue.copy(other.at(), tensors.at(), total)); });
    const double copy_rate = 2 * static_cast<double>(total) / copy / 1e9;
    const std::size_t wire_bytes = total / shape.tensor_bytes * shape.wire_bytes;
    const auto moved = static_cast<double>(total + wire_bytes);
    for (const Way way : {Way::pack, Way::unpack}) {
        const auto launches = launches_for(parts, layout, way, arguments);
        const double time = device_seconds(device, queue, 20, [&] {
            for (const auto& launch : launches)
                must(queue.launch(codec, way, launch));
        });
        const double rate = moved / time / 1e9;
        row(fmt::format("{} of {} tensors, beside cuMemcpy",
                        way == Way::pack ? shape.packer : shape.unpacker, counts.size()),
            fmt::format("{} MiB", total >> 20), rate, copy_rate, "GB/s",
            judged(fmt::format("{:.0f} %", 100 * rate / copy_rate), "80 %",
                   rate >= 0.8 * copy_rate));
    }
}

void measure_nccl(CudaDevice& device, CudaQueue& queue, const nccl::Library& nccl) {
    auto group = must(DeviceGroup::open(alone(DevicePath::nccl)));
    NcclCommunicator::Options direct{"direct", 0, 1, {}, Seconds(60)};
    if (nccl.unique_id(&direct.id) != nccl::success) throw std::runtime_error("ncclGetUniqueId");
    auto communicator = must(NcclCommunicator::begin(nccl, device, direct));
    must(communicator->connect());
    auto* stream = static_cast<cuda::Stream>(queue.stream().handle);
    for (const std::size_t bytes :
         sizes_of({std::size_t{8}, std::size_t{64} << 10, std::size_t{1} << 20,
                   std::size_t{16} << 20, std::size_t{64} << 20, std::size_t{256} << 20})) {
        const DeviceBytes send(queue, bytes);
        const DeviceBytes recv(queue, bytes);
        const DevicePart part{send.at(), recv.at(), bytes / 4};
        const int rounds = bytes < (std::size_t{1} << 20) ? 1001 : 101;
        // In turns, so that both see the same clocks.
        std::vector<double> ours;
        std::vector<double> theirs;
        for (int turn = 0; turn < 5; ++turn) {
            ours.push_back(host_seconds(rounds, [&] {
                finish(*group,
                       must(group->allreduce(std::span(&part, 1), {MPIB_FLOAT32, MPIB_SUM, 1, 1},
                                             queue.stream())));
            }));
            theirs.push_back(host_seconds(rounds, [&] {
                must(communicator->call("ncclAllReduce", [&](nccl::Communicator comm) {
                    return nccl.all_reduce(send.at(), recv.at(), bytes / 4, nccl::float32,
                                           nccl::sum, comm, stream);
                }));
                const auto mark = must(queue.mark());
                while (!must(queue.reached(mark)))
                    std::this_thread::yield();
            }));
        }
        const double a = median(ours) * 1e6;
        const double b = median(theirs) * 1e6;
        row("allreduce of 1 rank, beside ncclAllReduce", fmt::format("{} B", bytes), a, b, "µs",
            judged_beside_nccl(a, b, bytes));
    }
    must(communicator->close(Deadline::in(Seconds(30))));
    must(group->close(Deadline::in(Seconds(30))));
}

void measure_staging(CudaDevice& device, CudaQueue& queue) {
    auto options = alone(DevicePath::staged);
    options.host.allreduce = [](std::byte*, std::size_t, mpib_datatype, mpib_op) { return Done(); };
    auto group = must(DeviceGroup::open(options));
    const auto host = must(queue.host_memory(std::size_t{64} << 20));
    for (const std::size_t bytes :
         sizes_of({std::size_t{8}, std::size_t{1} << 20, std::size_t{64} << 20})) {
        const DeviceBytes tensor(queue, bytes);
        const DevicePart part{tensor.at(), tensor.at(), bytes / 4};
        const double ours = host_seconds(21, [&] {
            finish(*group, must(group->allreduce(std::span(&part, 1),
                                                 {MPIB_FLOAT32, MPIB_SUM, 1, 1}, queue.stream())));
        });
        const double copies = device_seconds(device, queue, 1, [&] {
            must(queue.copy(host.get(), tensor.at(), bytes));
            must(queue.copy(tensor.at(), host.get(), bytes));
        });
        row("host-staged, 1 rank, beside a copy out and a copy in", fmt::format("{} B", bytes),
            ours * 1e6, copies * 1e6, "µs", "the two directions overlap in ours");
    }
}

void measure() {
    CudaDevice& device = *must(first_device());
    auto queue = must(CudaQueue::open(device));
    fmt::print("GPU: {}, compute capability {}, kernels: ", device.name(), device.capability());
    // The first launch says where the kernels come from.
    const DeviceBytes one(*queue, sizeof(float));
    const DeviceBytes bucket(*queue, sizeof(float));
    kernels::Arguments arguments{};
    arguments.bucket = reinterpret_cast<std::uintptr_t>(bucket.at());
    const DevicePart part{one.at(), one.at(), 1};
    const auto parts = std::span(&part, 1);
    for (const auto& launch : launches_for(parts, lay_out(parts), Way::pack, arguments))
        must(queue->launch(Codec::copy32, Way::pack, launch));
    fmt::print("{}\n\n| what | size | ours | beside | |\n|---|---|---|---|---|\n",
               device.kernel_origin());
    for (const std::size_t total :
         sizes_of({std::size_t{1} << 20, std::size_t{25} << 20, std::size_t{256} << 20})) {
        for (const Codec codec : {Codec::copy32, Codec::copy16, Codec::scale_f32, Codec::scale_bf16,
                                  Codec::i16_as_i32}) {
            measure_packing(device, *queue, codec, total);
        }
    }
    const auto nccl = nccl::library();
    if (nccl) {
        measure_nccl(device, *queue, **nccl);
    } else {
        fmt::print("\nSkipped: everything over NCCL: {}\n\n", nccl.error().text);
    }
    measure_staging(device, *queue);
}

}  // namespace

int main(int argc, char** argv) {
    if (!read_arguments({argv, static_cast<std::size_t>(argc)})) return 2;
    if (auto device = first_device(); !device) {
        fmt::print("Skipped: all measurements: {}\n", device.error().text);
        return 77;
    }
    try {
        measure();
    } catch (const std::exception& fault) {
        fmt::print(stderr, "speed: {}\n", fault.what());
        return 1;
    }
    return 0;
}

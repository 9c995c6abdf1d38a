// SPDX-License-Identifier: Apache-2.0
//
// What the engine costs over NCCL alone, as rows of the Markdown table that speed.cpp begins.
#include <fmt/format.h>

#include "device_fixture.hpp"
#include "gpu/nccl/communicator.hpp"
#include "gpu/nccl/library.hpp"
#include "tests/unit/mpi_bridge/engine/ranks.hpp"
#include "timing.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

void synchronize(CudaQueue& queue) {
    const auto mark = must(queue.mark());
    while (!must(queue.reached(mark)))
        std::this_thread::yield();
}

mpib_operation allreduce_of(const std::string& name, const DeviceBytes& send,
                            const DeviceBytes& recv, const std::int64_t& count, CudaQueue& queue) {
    mpib_operation operation{};
    operation.struct_bytes = sizeof operation;
    operation.kind = MPIB_ALLREDUCE;
    operation.name = name.c_str();
    operation.send = send.at();
    operation.recv = recv.at();
    operation.shape = &count;
    operation.dimensions = 1;
    operation.datatype = MPIB_FLOAT32;
    operation.op = MPIB_SUM;
    operation.flags = MPIB_DEVICE;
    operation.stream = queue.stream().handle;
    return operation;
}

void measure(CudaDevice& device, const nccl::Library& nccl) {
    auto queue = must(CudaQueue::open(device));
    auto* stream = static_cast<cuda::Stream>(queue->stream().handle);
    Wishes wishes;
    wishes.settings.device_path = DevicePath::nccl;
    NcclCommunicator::Options direct{"direct", 0, 1, {}, Seconds(60)};
    if (nccl.unique_id(&direct.id) != nccl::success) throw std::runtime_error("ncclGetUniqueId");
    auto communicator = must(NcclCommunicator::begin(nccl, device, direct));
    must(communicator->connect());
    for (const std::size_t bytes :
         sizes_of({std::size_t{8}, std::size_t{64} << 10, std::size_t{1} << 20,
                   std::size_t{16} << 20, std::size_t{256} << 20})) {
        Ranks ranks(1, wishes);
        const DeviceBytes send(*queue, bytes);
        const DeviceBytes recv(*queue, bytes);
        const auto count = static_cast<std::int64_t>(bytes / 4);
        const std::string name = "tensor";
        const mpib_operation operation = allreduce_of(name, send, recv, count, *queue);
        const int rounds = bytes < (std::size_t{1} << 20) ? 1001 : 101;
        std::vector<double> ours;
        std::vector<double> theirs;
        // In turns, so that both see the same clocks.
        for (int turn = 0; turn < 5; ++turn) {
            ours.push_back(host_seconds(rounds, [&] {
                must(ranks.at(0).engine().call(operation));
                synchronize(*queue);
            }));
            theirs.push_back(host_seconds(rounds, [&] {
                must(communicator->call("ncclAllReduce", [&](nccl::Communicator comm) {
                    return nccl.all_reduce(send.at(), recv.at(), bytes / 4, nccl::float32,
                                           nccl::sum, comm, stream);
                }));
                synchronize(*queue);
            }));
        }
        static_cast<void>(ranks.at(0).engine().shutdown());
        const double a = median(ours) * 1e6;
        const double b = median(theirs) * 1e6;
        row("engine, planned allreduce of 1 rank, beside ncclAllReduce", fmt::format("{} B", bytes),
            a, b, "µs", judged_beside_nccl(a, b, bytes));
    }
    must(communicator->close(Deadline::in(Seconds(30))));
}

}  // namespace

int main(int argc, char** argv) {
    if (!read_arguments({argv, static_cast<std::size_t>(argc)})) return 2;
    auto device = first_device();
    if (!device) {
        fmt::print("\nSkipped: the engine's measurements: {}\n", device.error().text);
        return 77;
    }
    const auto nccl = nccl::library();
    if (!nccl) {
        fmt::print("\nSkipped: the engine over NCCL: {}\n", nccl.error().text);
        return 0;
    }
    try {
        measure(**device, **nccl);
    } catch (const std::exception& fault) {
        fmt::print(stderr, "engine_speed: {}\n", fault.what());
        return 1;
    }
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// The engine on stand-in devices whose streams run late: what a caller's stream holds before an
// operation and after it, several ranks over NCCL, and process sets that overlap.
#include <cstring>
#include <random>

#include "engines.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

struct Setting {
    std::string name;
    std::string plan;
    std::vector<int> devices;
    DevicePath path;
};

class Order : public testing::TestWithParam<Setting> {
  protected:
    // As three ranks, for some seeds.
    static void with_ranks(int seeds, const std::function<void(DeviceRank)>& body) {
        with_seeds(seeds, GetParam().plan, [&] {
            must_end(std::chrono::seconds(60), [&] {
                on_devices(GetParam().devices, wishes_for(GetParam().path), body,
                           [](const std::string& text) { ADD_FAILURE() << text; });
            });
            EXPECT_EQ(Standin::get().live_events(), 0);
            EXPECT_EQ(Standin::get().live_streams(), 0);
            EXPECT_EQ(Standin::get().live_memory(), 0);
        });
    }
};

// Puts work into the rank's stream that takes a while.
void take_time(const DeviceRank& at) {
    Standin::get().host_function(
        at.stream(), [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); },
        nullptr);
}

// Filled late by the caller's stream, reduced, read and overwritten late: nobody waits on the host.
TEST_P(Order, IsThatOfTheCallersStream) {
    with_ranks(4, [](DeviceRank at) {
        constexpr std::size_t count = 70001;
        const DeviceBytes tensor(at.queue, bytes_of(filled(count, -1)));
        const DeviceBytes result(at.queue, bytes_of(filled(count, -1)));
        const DeviceBytes copy(at.queue, bytes_of(filled(count, -1)));
        const DeviceBytes nothing(at.queue, bytes_of(filled(count, 0)));
        const auto shape = static_cast<std::int64_t>(count);
        for (int step = 0; step < 6; ++step) {
            const DeviceBytes fresh(at.queue, bytes_of(filled(count, static_cast<float>(step))));
            take_time(at);
            must(at.queue.copy(tensor.at(), fresh.at(), count * 4));
            mpib_operation operation{};
            operation.struct_bytes = sizeof operation;
            operation.kind = MPIB_ALLREDUCE;
            operation.name = "x";
            operation.send = tensor.at();
            operation.recv = result.at();
            operation.shape = &shape;
            operation.dimensions = 1;
            operation.datatype = MPIB_FLOAT32;
            operation.op = MPIB_SUM;
            operation.flags = MPIB_DEVICE;
            operation.stream = at.stream();
            const auto done = at.engine().call(operation);
            ASSERT_TRUE(done) << done.error().text;
            must(at.queue.copy(copy.at(), result.at(), count * 4));
            must(at.queue.copy(tensor.at(), nothing.at(), count * 4));
            must(at.queue.copy(result.at(), nothing.at(), count * 4));
            const auto sum = static_cast<float>(step * at.rank.size());
            ASSERT_EQ(values_of<float>(copy.content()), filled(count, sum)) << "step " << step;
        }
    });
}

// Every kind of operation, with results in memory of the engine.
TEST_P(Order, HoldsForEveryKindOfOperation) {
    with_ranks(2, [](DeviceRank at) {
        const int size = at.rank.size();
        const int own = at.rank.rank();
        for (int step = 0; step < 3; ++step) {
            const auto run = [&](Tensor& tensor, mpib_kind kind, int root = 0) {
                mpib_operation operation = tensor.operation(kind, kind == MPIB_BROADCAST);
                operation.root = root;
                const auto handle = submit(at.engine(), operation);
                const auto done = at.engine().wait(handle, 0);
                EXPECT_TRUE(done) << done.error().text;
                const auto result = must(at.engine().result(handle));
                const DeviceBytes copy(at.queue, result.bytes);
                must(at.queue.copy(copy.at(), result.data, result.bytes));
                EXPECT_TRUE(at.engine().release(handle));
                return values_of<float>(copy.content());
            };
            const auto rows = static_cast<std::size_t>(1000 * (own + 1));
            Tensor gathered("gathered", &at.queue, filled(rows, static_cast<float>(own)));
            std::vector<float> expected;
            for (int from = 0; from < size; ++from)
                expected.insert(expected.end(), static_cast<std::size_t>(1000 * (from + 1)),
                                static_cast<float>(from));
            ASSERT_EQ(run(gathered, MPIB_ALLGATHER), expected);

            Tensor spread("spread", &at.queue, filled(5001, static_cast<float>(own + step)));
            const int root = step % size;
            ASSERT_EQ(run(spread, MPIB_BROADCAST, root),
                      filled(5001, static_cast<float>(root + step)));

            Tensor scattered("scattered", &at.queue, filled(6000, 2));
            ASSERT_EQ(run(scattered, MPIB_REDUCE_SCATTER),
                      filled(6000 / static_cast<std::size_t>(size), static_cast<float>(2 * size)));

            Tensor exchanged("exchanged", &at.queue,
                             filled(static_cast<std::size_t>(300 * size), static_cast<float>(own)));
            expected.clear();
            for (int from = 0; from < size; ++from)
                expected.insert(expected.end(), 300, static_cast<float>(from));
            ASSERT_EQ(run(exchanged, MPIB_ALLTOALL), expected);
        }
    });
}

// Runs an operation that writes `count` floats behind what the caller's stream does late to their
// memory, into memory of the caller or of the engine, and returns them.
std::vector<float> received_late(const DeviceRank& at, mpib_operation operation, std::size_t count,
                                 bool with_recv) {
    const DeviceBytes recv(at.queue, bytes_of(filled(count, -1)));
    const DeviceBytes nothing(at.queue, bytes_of(filled(count, 0)));
    const DeviceBytes copy(at.queue, bytes_of(filled(count, -1)));
    take_time(at);
    must(at.queue.copy(recv.at(), nothing.at(), count * sizeof(float)));
    operation.recv = with_recv ? recv.at() : nullptr;
    operation.recv_bytes = with_recv ? count * sizeof(float) : 0;
    const auto handle = submit(at.engine(), operation);
    const auto done = at.engine().wait(handle, 0);
    EXPECT_TRUE(done) << done.error().text;
    const auto result = must(at.engine().result(handle));
    EXPECT_EQ(result.bytes, count * sizeof(float));
    must(at.queue.copy(copy.at(), result.data, result.bytes));
    EXPECT_TRUE(at.engine().release(handle));
    return values_of<float>(copy.content());
}

// Breaks when only what is sent waits for the caller's stream: ranks that pass no rows, or receive
// from a root, have nothing to send.
TEST_P(Order, HoldsForRanksThatOnlyReceive) {
    with_ranks(3, [](DeviceRank at) {
        const auto size = static_cast<std::size_t>(at.rank.size());
        const auto own = static_cast<std::size_t>(at.rank.rank());
        constexpr std::size_t rows = 3000;
        for (int step = 0; step < 6; ++step) {
            const auto root = static_cast<std::size_t>(step) % size;
            const bool with_recv = step % 2 == 0;
            const auto value = static_cast<float>(step + 1);
            const int place = MPIB_ON_DEVICE(GetParam().devices[own]);
            const std::int64_t none = 0;
            // The root sends each rank as many rows, as torch.distributed.scatter() does.
            Tensor spread("scattered", &at.queue, filled(rows * size, value));
            mpib_operation operation = spread.operation(MPIB_ALLTOALL, false);
            const std::vector<std::int64_t> splits(size, own == root ? rows : 0);
            operation.splits = splits.data();
            operation.place = place;
            if (own != root) operation.shape = &none;
            ASSERT_EQ(received_late(at, operation, rows, with_recv), filled(rows, value)) << step;

            Tensor gathered("gathered", &at.queue, filled(rows, value));
            operation = gathered.operation(MPIB_ALLGATHER, false);
            operation.place = place;
            if (own != root) operation.shape = &none;
            ASSERT_EQ(received_late(at, operation, rows, with_recv), filled(rows, value)) << step;

            Tensor told("told", &at.queue, filled(rows, value + static_cast<float>(own)));
            operation = told.operation(MPIB_BROADCAST, false);
            operation.root = static_cast<int>(root);
            ASSERT_EQ(received_late(at, operation, rows, true),
                      filled(rows, value + static_cast<float>(root)))
                << step;
        }
    });
}

// Each rank submits to the world and to its pairs from a thread each, in whatever order comes.
TEST_P(Order, OfProcessSetsIsTheSameOnAllRanks) {
    with_ranks(3, [](DeviceRank at) {
        const auto steps = [&](int set, int members) {
            const auto queue = must(CudaQueue::open(*must(
                CudaDevice::get(GetParam().devices[static_cast<std::size_t>(at.rank.rank())]))));
            std::mt19937 random(static_cast<unsigned>(set * 10 + at.rank.rank()));
            for (int step = 0; step < 12; ++step) {
                std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
                const std::size_t count = step % 3 == 0 ? 100000 : 50;
                Tensor tensor("x", queue.get(), filled(count, 1));
                mpib_operation operation = tensor.operation(MPIB_ALLREDUCE);
                operation.process_set = set;
                const auto done = at.engine().call(operation);
                ASSERT_TRUE(done) << done.error().text;
                ASSERT_EQ(tensor.result(), filled(count, static_cast<float>(members)));
            }
        };
        steps(MPIB_WORLD, at.rank.size());
        std::vector<int> own_sets;
        for (const std::vector<int>& pair :
             {std::vector{0, 1}, std::vector{1, 2}, std::vector{0, 2}}) {
            const auto set = must(at.engine().add_process_set(pair));
            if (at.engine().process_set_rank(set) >= 0) own_sets.push_back(set);
        }
        std::vector<std::thread> threads;
        threads.emplace_back(steps, MPIB_WORLD, at.rank.size());
        for (const int set : own_sets)
            threads.emplace_back(steps, set, 2);
        for (auto& thread : threads)
            thread.join();
    });
}

// A joined rank's neutral elements must be there when its device uses them.
TEST_P(Order, HoldsForTheMemoryOfJoinedRanks) {
    with_ranks(4, [](DeviceRank at) {
        for (int step = 0; step <= at.rank.rank(); ++step) {
            const auto present = static_cast<float>(at.rank.size() - step);
            const std::size_t count = std::size_t{20000} << step;
            Tensor tensor("x", &at.queue, filled(count, 1));
            const auto done = at.engine().call(tensor.operation(MPIB_ALLREDUCE));
            ASSERT_TRUE(done) << done.error().text;
            ASSERT_EQ(tensor.result(), filled(count, present)) << "step " << step;
        }
        EXPECT_EQ(must(at.engine().join()), at.rank.size() - 1);
    });
}

void call(const DeviceRank& at, const mpib_operation& operation) {
    const auto done = at.engine().call(operation);
    ASSERT_TRUE(done) << done.error().text;
}

// These calls wait for the whole device, and with it for other ranks.
long unsafe_calls() {
    long count = 0;
    for (const char* each : {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost",
                             "cuModuleLoadData", "cuModuleGetFunction"})
        count += Standin::get().count(each);
    return count;
}

TEST_P(Order, NeedsNoCallThatWaitsForTheDeviceInLaterSteps) {
    with_ranks(1, [](DeviceRank at) {
        Tensor small("small", &at.queue, filled(100, 1));
        Tensor large("large", &at.queue, filled(30000, 1));
        const auto steps = [&](int count) {
            for (int step = 0; step < count; ++step) {
                const auto handle = submit(at.engine(), small.operation(MPIB_ALLREDUCE));
                call(at, large.operation(MPIB_ALLREDUCE));
                const auto done = mpi_bridge_test::finish(at.engine(), handle);
                ASSERT_TRUE(done) << done.error().text;
            }
        };
        steps(8);
        meet(at);
        const long before = unsafe_calls();
        meet(at);
        steps(8);
        meet(at);
        EXPECT_EQ(unsafe_calls(), before);
        meet(at);
    });
}

// As torch.cuda.graph() captures: no thread of the process may make an unsafe call meanwhile.
TEST_P(Order, IsKeptWhileTheProgramCapturesAGraph) {
    with_ranks(1, [](DeviceRank at) {
        constexpr int global = 0;
        Tensor tensor("x", &at.queue, filled(30000, 1));
        const auto side = must(CudaQueue::open(
            *must(CudaDevice::get(GetParam().devices[static_cast<std::size_t>(at.rank.rank())]))));
        auto* const captured = static_cast<cuda::Stream>(side->stream().handle);
        const Tensor of_graph("of the graph", side.get(), filled(10, 1));
        for (int step = 0; step < 8; ++step) {
            const bool captures = at.rank.rank() == 0 && step > 0;
            meet(at);
            if (captures) {
                ASSERT_EQ(Standin::get().begin_capture(captured, global), cuda::success);
            }
            meet(at);
            call(at, tensor.operation(MPIB_ALLREDUCE));
            meet(at);
            if (!captures) continue;
            mpib_operation into_graph = tensor.operation(MPIB_ALLREDUCE);
            into_graph.stream = captured;
            const auto refused = at.engine().submit(into_graph);
            EXPECT_FALSE(refused);
            if (!refused) {
                EXPECT_NE(refused.error().text.find("captured into a CUDA graph"),
                          std::string::npos)
                    << refused.error().text;
            }
            void* graph = nullptr;
            EXPECT_EQ(Standin::get().end_capture(captured, &graph), cuda::success);
        }
        EXPECT_EQ(tensor.result(), filled(30000, static_cast<float>(at.rank.size())));
    });
}

INSTANTIATE_TEST_SUITE_P(
    Paths, Order,
    testing::Values(Setting{"OverNccl", "delay=2000 devices=3", {0, 1, 2}, DevicePath::nccl},
                    Setting{"ThroughHostMemory", "delay=2000", {0, 0, 0}, DevicePath::automatic}),
    [](const auto& setting) { return setting.param.name; });

}  // namespace

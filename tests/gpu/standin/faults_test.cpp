// SPDX-License-Identifier: Apache-2.0
//
// Errors of CUDA and NCCL, lost peers and calls that never end: the engine must answer each of them
// with a failure whose text tells what it was, on every rank, and must neither hang nor crash.
//
// Every case runs in a process of its own, because what the first use of a device leaves behind
// would hide the second.
#include <atomic>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <sstream>

#include <sys/wait.h>

#include "engines.hpp"

namespace {

using namespace mpi_bridge;
using namespace mpi_bridge_test;

constexpr std::chrono::seconds longest_case{60};

struct Path {
    std::string plan;
    std::vector<int> devices;
    DevicePath path;
};
const Path over_nccl{"delay=300 devices=2", {0, 1}, DevicePath::nccl};
const Path staged{"delay=300", {0, 0}, DevicePath::automatic};

// What the ranks of a case were told.
class Texts {
  public:
    void add(const std::string& text) {
        const std::lock_guard lock(mutex_);
        texts_.push_back(text);
    }
    [[nodiscard]] std::string all() {
        const std::lock_guard lock(mutex_);
        std::string all;
        for (const std::string& text : texts_)
            all += text + "\n";
        return all;
    }
    [[nodiscard]] std::size_t count() {
        const std::lock_guard lock(mutex_);
        return texts_.size();
    }

  private:
    std::mutex mutex_;
    std::vector<std::string> texts_;
};

// Some training steps, a process set and the end; stops at the first failure.
void train(DeviceRank at, Texts& texts) {
    const auto size = static_cast<float>(at.rank.size());
    const auto run = [&](Tensor& tensor, mpib_kind kind, int set, mpib_op op = MPIB_SUM) {
        mpib_operation operation = tensor.operation(kind, kind == MPIB_ALLREDUCE);
        operation.op = op;
        operation.process_set = set;
        const auto submitted = at.engine().submit(operation);
        auto done = submitted ? at.engine().wait(*submitted, 0) : Done();
        if (!submitted) done = tl::unexpected(submitted.error());
        if (submitted) static_cast<void>(at.engine().release(*submitted));
        if (done) return true;
        // As a program that ends then.
        texts.add(done.error().text);
        at.rank.failure().fail(done.error());
        return false;
    };
    const auto steps = [&](int set) {
        for (int step = 0; step < 4; ++step) {
            Tensor first("first", &at.queue, filled(30, 1));
            Tensor second("second", &at.queue, filled(20000, 1));
            // The least of floats needs kernels.
            if (!run(first, MPIB_ALLREDUCE, set, MPIB_MIN)) return false;
            if (!run(second, MPIB_ALLREDUCE, set)) return false;
            Tensor third("third", &at.queue, filled(10, 1));
            if (step == 2 && !run(third, MPIB_ALLGATHER, set)) return false;
            const auto result = second.result();
            // A failure may come between the operation's end and this look at its result.
            if (result != filled(20000, size) && !at.rank.failure().failed()) {
                std::fprintf(stderr, "a wrong result without a failure\n");
                _exit(4);
            }
        }
        return true;
    };
    if (!steps(MPIB_WORLD)) return;
    std::vector<int> all(static_cast<std::size_t>(at.rank.size()));
    std::iota(all.begin(), all.end(), 0);
    all.pop_back();
    const auto set = at.engine().add_process_set(all);
    if (!set) return texts.add(set.error().text);
    if (at.rank.rank() == 0) {
        Tensor alone("alone", &at.queue, filled(50, 1));
        static_cast<void>(run(alone, MPIB_ALLREDUCE, *set));
    }
    static_cast<void>(steps(MPIB_WORLD));
}

// Runs the body in a child, which writes its answer into the pipe and leaves with its result.
struct Answer {
    int status = 0;
    std::string text;
};
Answer in_child(const std::function<std::string()>& body) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        std::string text;
        must_end(longest_case, [&] { text = body(); });
        const auto written = write(ends[1], text.data(), std::min<std::size_t>(text.size(), 4000));
        _exit(written < 0 ? 5 : 0);
    }
    close(ends[1]);
    Answer answer;
    char part[4096];
    for (ssize_t bytes = 0; (bytes = read(ends[0], part, sizeof part)) > 0;)
        answer.text.append(part, static_cast<std::size_t>(bytes));
    close(ends[0]);
    waitpid(child, &answer.status, 0);
    return answer;
}

std::string train_with(const Path& path, const std::string& rules) {
    Standin::get().configure((path.plan + " " + rules).c_str());
    Texts texts;
    on_devices(
        path.devices, wishes_for(path.path), [&](DeviceRank at) { train(at, texts); },
        [&](const std::string& text) { texts.add(text); });
    if (Standin::get().live_events() != 0 && rules.find("cuEventDestroy") == rules.npos) {
        std::fprintf(stderr, "%ld events are left\n", Standin::get().live_events());
        _exit(6);
    }
    return texts.all();
}

// A call, what it returns, and whether the engine may go on in spite of it.
struct Injected {
    const char* call;
    int code;
    bool may_go_on = false;
};

void expect_clear_failure(const Path& path, const Injected& injected, long number,
                          const std::string& how) {
    const std::string rule = how + "=" + injected.call + ":" + std::to_string(number) + ":" +
                             std::to_string(injected.code);
    SCOPED_TRACE(rule);
    const std::string not_reached = "the call with this number was not made";
    const auto answer = in_child([&] {
        auto text = train_with(path, rule);
        // How often an event is asked for depends on how busy the machine is.
        return text.empty() && Standin::get().count(injected.call) < number ? not_reached : text;
    });
    EXPECT_EQ(answer.status, 0) << answer.text;
    if (number > 1 && answer.text == not_reached) return;
    if (injected.may_go_on && answer.text.empty()) return;
    // As the messages name it, without the version of its symbol.
    const std::string name =
        std::string(injected.call).substr(0, std::string(injected.call).find('_'));
    EXPECT_NE(answer.text.find(name), std::string::npos) << answer.text;
}

// How often each call is made in a run without faults.
std::vector<long> calls_in_a_good_run(const Path& path, std::span<const Injected> all) {
    const auto answer = in_child([&] {
        auto text = train_with(path, "");
        if (!text.empty()) return text;
        for (const Injected& each : all)
            text += std::to_string(Standin::get().count(each.call)) + "\n";
        return text;
    });
    EXPECT_EQ(answer.status, 0) << answer.text;
    std::vector<long> counts;
    std::istringstream lines(answer.text);
    for (long count = 0; lines >> count;)
        counts.push_back(count);
    return counts;
}

void sweep(const Path& path, std::initializer_list<Injected> all, const std::string& how) {
    const auto counts = calls_in_a_good_run(path, all);
    ASSERT_EQ(counts.size(), all.size());
    for (std::size_t at = 0; at < all.size(); ++at) {
        const Injected& injected = *(all.begin() + at);
        ASSERT_GT(counts[at], 0) << injected.call << " is never called";
        for (const long number : std::set<long>{1, counts[at] / 2 + 1})
            expect_clear_failure(path, injected, number, how);
    }
}

constexpr int unknown_error = 999;
constexpr int no_memory = 2;

TEST(Faults, OfCudaAreClearFailuresOverNccl) {
    sweep(over_nccl,
          {{"cuInit", unknown_error},
           {"cuDeviceGetCount", unknown_error},
           {"cuDevicePrimaryCtxRetain", no_memory},
           {"cuStreamCreateWithPriority", no_memory},
           {"cuPointerGetAttribute", unknown_error},
           {"cuMemAlloc_v2", no_memory},
           {"cuMemAllocAsync", no_memory},
           {"cuMemFree_v2", unknown_error, true},
           {"cuMemFreeAsync", unknown_error, true},
           {"cuStreamWaitEvent", unknown_error},
           {"cuEventCreate", no_memory},
           {"cuEventRecord", unknown_error},
           {"cuEventQuery", 719},
           {"cuEventDestroy_v2", unknown_error, true},
           {"cuStreamDestroy_v2", unknown_error, true},
           {"cuModuleLoadData", no_memory, true},  // NVRTC may serve instead
           {"cuModuleGetFunction", unknown_error},
           {"cuLaunchKernel", 719}},
          "fail");
}

TEST(Faults, OfNcclAreClearFailures) {
    const std::initializer_list<Injected> calls = {{"ncclCommInitRankConfig", 1},
                                                   {"ncclAllReduce", 1},
                                                   {"ncclAllGather", 3},
                                                   {"ncclCommFinalize", 6, true}};
    sweep(over_nccl, calls, "fail");
    sweep(over_nccl, calls, "late");
    sweep(over_nccl,
          {{"ncclGetUniqueId", 2}, {"ncclCommGetAsyncError", 3}, {"ncclCommDestroy", 1, true}},
          "fail");
}

TEST(Faults, OfCudaAreClearFailuresThroughHostMemory) {
    sweep(staged,
          {{"cuStreamCreateWithPriority", no_memory},
           {"cuMemAlloc_v2", no_memory},
           {"cuMemHostAlloc", no_memory},
           {"cuMemFreeHost", unknown_error, true},
           {"cuMemcpyAsync", unknown_error},
           {"cuStreamWaitEvent", unknown_error},
           {"cuEventRecord", unknown_error},
           {"cuEventQuery", 719}},
          "fail");
}

// ---- What never ends ---------------------------------------------------------------------------

// The stream of rank 1 is late, so the kernels of the others wait on their devices: those of two
// process sets, and, in the second case, also a call of CUDA that waits for the device. Then rank 1
// is lost, which no device notices.
std::string lose_a_late_peer(bool allocates) {
    Standin::get().configure("delay=300 devices=3");
    Texts texts;
    std::atomic<int> left{0};
    on_devices(
        {0, 1, 2}, wishes_for(DevicePath::nccl),
        [&](DeviceRank at) {
            const std::vector<int> pair = {0, 1};
            const int set = must(at.engine().add_process_set(pair));
            Tensor first("first", &at.queue, filled(5000, 1));
            Tensor second("second", &at.queue, filled(5000, 1));
            Tensor third("third", &at.queue, filled(70000, 1));
            const auto call = [&](Tensor& tensor, int process_set) {
                mpib_operation operation = tensor.operation(MPIB_ALLREDUCE);
                operation.process_set = process_set;
                return at.engine().call(operation);
            };
            must(call(first, MPIB_WORLD));
            if (at.rank.rank() < 2) must(call(second, set));
            std::optional<Gate> gate;
            if (at.rank.rank() == 1) gate.emplace(at.queue.stream());
            must(call(first, MPIB_WORLD));
            if (at.rank.rank() < 2) must(call(second, set));
            // The least of floats goes through a bucket, whose memory is not there yet.
            mpib_operation last = (allocates ? third : first).operation(MPIB_ALLREDUCE);
            if (allocates) last.op = MPIB_MIN;
            if (at.rank.rank() == 1) {
                if (allocates) static_cast<void>(at.engine().submit(last));
                std::this_thread::sleep_for(std::chrono::seconds(1));
                at.rank.transport().abandon();
                at.lost = 1;
                while (left != 2)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                // The end of its process would take its device's work with it.
                gate->open();
                at.rank.failure().fail({MPIB_ERROR_INTERNAL, "this rank has left"});
                return;
            }
            // What goes on behind a call that has returned may fail without it.
            auto done = at.engine().call(last);
            while (done)
                done = at.engine().call(first.operation(MPIB_ALLREDUCE));
            texts.add(done.error().text);
            ++left;
        },
        [&](const std::string& text) {
            texts.add("thrown: " + text);
            ++left;
        });
    return texts.all();
}

TEST(Faults, ALostPeerEndsWhatWaitsForItOnTheDevice) {
    for (const bool allocates : {false, true}) {
        SCOPED_TRACE(allocates);
        const auto answer = in_child([&] { return lose_a_late_peer(allocates); });
        EXPECT_EQ(answer.status, 0) << answer.text;
        EXPECT_EQ(answer.text.find("thrown"), std::string::npos) << answer.text;
        EXPECT_NE(answer.text.find("rank"), std::string::npos) << answer.text;
    }
}

// NCCL never comes to the end of making a communicator, and then a peer is lost.
TEST(Faults, OpeningThatNeverEndsIsLeftWhenAPeerIsLost) {
    const auto answer = in_child([] {
        Standin::get().configure("delay=300 devices=2 hang=ncclCommInitRankConfig:1");
        Texts texts;
        on_devices(
            {0, 1}, wishes_for(DevicePath::nccl),
            [&](DeviceRank at) {
                // What watches over the peers tells every rank.
                std::thread told([&] {
                    std::this_thread::sleep_for(std::chrono::seconds(1));
                    at.rank.failure().fail({MPIB_ERROR_PEER_LOST, "rank 1 is lost"});
                });
                Tensor tensor("x", &at.queue, filled(10, 1));
                const auto done = at.engine().call(tensor.operation(MPIB_ALLREDUCE));
                texts.add(done ? "no failure" : done.error().text);
                told.join();
            },
            [&](const std::string& text) { texts.add(text); });
        return texts.all();
    });
    EXPECT_EQ(answer.status, 0) << answer.text;
    EXPECT_EQ(answer.text.find("no failure"), std::string::npos) << answer.text;
}

}  // namespace

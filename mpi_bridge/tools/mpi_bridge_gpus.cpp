// SPDX-License-Identifier: Apache-2.0
//
// Checks the GPUs of one host before a job's real work starts and fails in a less obvious way: as
// many are visible as Slurm has given, each takes a context and memory and returns what was copied
// to it, what they copy to each other arrives, and none copies at less than half of the speed of
// the others. A child process makes all calls of the driver, because a call that never returns is
// what a broken GPU may answer with.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/environment.hpp"
#include "core/failure.hpp"
#include "gpu/cuda_library.hpp"
#include "tools/gpus/compare.hpp"
#include "tools/gpus/gpu.hpp"
#include "trace/record_file.hpp"

namespace {

namespace cuda = mpi_bridge::cuda;
using Clock = std::chrono::steady_clock;

// A driver that nobody else has kept awake needs seconds for each GPU
// (https://docs.nvidia.com/deploy/driver-persistence/). The launcher waits 60 s.
constexpr std::chrono::seconds limit{45};
constexpr int failed = 1;
constexpr int usage_error = 2;

constexpr const char* help =
    "Usage: mpi_bridge_gpus [--report PATH]\n"
    "\n"
    "Checks the GPUs of this host: that CUDA sees as many as CUDA_VISIBLE_DEVICES names,\n"
    "that each one takes memory and returns what was copied to it, that what two of them copy\n"
    "to each other directly arrives unchanged (not with NCCL_P2P_DISABLE=1), and whether one\n"
    "copies at less than half of the speed of the others.\n"
    "\n"
    "  --report PATH  also write the result, as JSON, to PATH.TASK.json\n"
    "  --help         this text\n"
    "\n"
    "Usually takes some seconds, and ends within 45 s. The exit code is 0 if all GPUs can be used, "
    "1 if not, and 2 if the\n"
    "command line is wrong. A slow GPU is only reported.\n"
    "\n"
    "Example: srun -N4 --ntasks-per-node=1 --gpus-per-node=8 mpi_bridge_gpus\n";

struct Result {
    std::string fault;   // empty: all GPUs can be used
    std::string gpus;    // how many there are
    std::string driver;  // version; empty: unknown
    std::string slow;    // which GPU is slow, in words; empty: none
    std::string host;    // how fast they copy, in bytes per second: see gpus::Speeds
    std::string peers;
    std::string none;  // why there is nothing to check; empty: there is
};

// What CUDA_VISIBLE_DEVICES lets a process see.
struct Visible {
    int least = 0;
    int most = 0;
};

// Nothing if the variable is not set. CUDA stops at the first entry that is no GPU, such as -1, and
// a process sees one instance of a divided GPU (MIG), however many are named.
std::optional<Visible> expected_gpus() {
    const auto devices = mpi_bridge::process_environment("CUDA_VISIBLE_DEVICES");
    if (!devices) return std::nullopt;
    Visible visible;
    bool divided = false;
    std::istringstream list(*devices);
    for (std::string entry; std::getline(list, entry, ',');) {
        const bool is_gpu = !entry.empty() && entry.front() != '-' && entry != "NoDevFiles";
        if (!is_gpu) break;
        if (entry.rfind("MIG-", 0) == 0) divided = true;
        ++visible.most;
    }
    visible.least = divided ? 1 : visible.most;
    return visible;
}

bool exists(const char* path) {
    return access(path, F_OK) == 0;
}

// Whether the host has GPUs, but none of NVIDIA's. Slurm sets CUDA_VISIBLE_DEVICES for all makers.
bool has_gpus_of_others_only() {
    for (const char* path : {"/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"}) {
        if (exists(path)) return false;
    }
    return exists("/dev/kfd") || exists("/dev/dri");
}

// The kernel module's version is the word with digits and dots after "Kernel Module".
std::string driver_version() {
    std::ifstream file("/proc/driver/nvidia/version");
    std::string line;
    std::getline(file, line);
    std::istringstream words(line);
    for (std::string word; words >> word;) {
        const bool is_version = word.find_first_not_of("0123456789.") == std::string::npos &&
                                word.find('.') != std::string::npos;
        if (is_version) return word;
    }
    return {};
}

// Whether NCCL would copy directly between GPUs, as far as the environment says.
bool uses_direct_copies() {
    const auto disabled = mpi_bridge::process_environment("NCCL_P2P_DISABLE").value_or("0");
    const auto level = mpi_bridge::process_environment("NCCL_P2P_LEVEL").value_or("");
    return disabled == "0" && level != "0" && level != "LOC";
}

Result check_gpus() {
    Result result;
    result.driver = driver_version();
    const auto expected = expected_gpus();
    if (expected && expected->most == 0) {
        result.none = "CUDA_VISIBLE_DEVICES names no GPU";
        return result;
    }
    const auto library = cuda::library();
    if (!library) {
        (has_gpus_of_others_only() ? result.none : result.fault) = library.error().text;
        return result;
    }
    const cuda::Library& cuda = **library;
    int count = 0;
    if (const auto counted = cuda.check(cuda.device_count(&count), "cuDeviceGetCount"); !counted) {
        result.fault = counted.error().text;
        return result;
    }
    result.gpus = std::to_string(count);
    if (expected && (count < expected->least || count > expected->most)) {
        result.fault = fmt::format(
            "CUDA sees {} of the {} GPUs in CUDA_VISIBLE_DEVICES={}", count, expected->most,
            mpi_bridge::process_environment("CUDA_VISIBLE_DEVICES").value_or(""));
        return result;
    }
    std::vector<mpi_bridge::gpus::Gpu> gpus;
    gpus.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
        gpus.emplace_back(cuda, i);
    const auto speeds = mpi_bridge::gpus::compare(gpus, uses_direct_copies());
    if (!speeds) {
        result.fault = speeds.error().text;
        return result;
    }
    result.slow = speeds->slow;
    result.host = fmt::format("{:.0f}", speeds->host);
    result.peers = fmt::format("{:.0f}", speeds->peers);
    return result;
}

// The lines that the child writes: its result's members, in their order.
std::string to_lines(const Result& result) {
    std::string lines;
    for (std::string text : {result.fault, result.gpus, result.driver, result.slow, result.host,
                             result.peers, result.none}) {
        std::replace(text.begin(), text.end(), '\n', ' ');
        lines += text + '\n';
    }
    return lines;
}

std::optional<Result> from_lines(const std::string& lines) {
    std::istringstream stream(lines);
    Result result;
    for (std::string* member : {&result.fault, &result.gpus, &result.driver, &result.slow,
                                &result.host, &result.peers, &result.none}) {
        if (!std::getline(stream, *member) || stream.eof()) return std::nullopt;
    }
    return result;
}

[[noreturn]] void be_the_child(int pipe) {
    // A child that outlives the check would keep the GPUs busy.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Slurm waits for the end of these, even if a signal cannot end the process.
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        dup2(nowhere, stream);
    const std::string lines = to_lines(check_gpus());
    // No destructors: the driver may still be at work.
    _exit(write(pipe, lines.data(), lines.size()) < 0 ? failed : 0);
}

// Reads until the end of the pipe. Returns nothing once the time is up.
std::optional<std::string> read_all(int pipe, Clock::time_point end) {
    std::string text;
    while (true) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        pollfd waiting{pipe, POLLIN, 0};
        if (left <= 0) return std::nullopt;
        if (poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
        char buffer[4096];
        const ssize_t count = read(pipe, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return text;
        text.append(buffer, static_cast<std::size_t>(count));
    }
}

// Returns how the child has ended, or nothing once the time is up: the driver is also at work while
// a process ends.
std::optional<int> status_of(pid_t child, Clock::time_point end) {
    int status = 0;
    while (Clock::now() < end) {
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return status;
        if (ended < 0 && errno != EINTR) return std::nullopt;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return std::nullopt;
}

Result with_fault(std::string fault) {
    Result result;
    result.fault = std::move(fault);
    return result;
}

Result check_in_child() {
    int ends[2];
    if (pipe(ends) != 0) return with_fault(std::string("pipe: ") + std::strerror(errno));
    const pid_t child = fork();
    if (child < 0) return with_fault(std::string("fork: ") + std::strerror(errno));
    if (child == 0) {
        close(ends[0]);
        be_the_child(ends[1]);
    }
    close(ends[1]);
    const auto end = Clock::now() + limit;
    const auto lines = read_all(ends[0], end);
    const auto status = lines ? status_of(child, end) : std::nullopt;
    if (!lines || !status) {
        // It may be inside a call that no signal ends, so that nobody can wait for it.
        kill(child, SIGKILL);
        return with_fault(
            fmt::format("the check of the GPUs did not end within {} s: a call of the driver hangs",
                        limit.count()));
    }
    if (auto result = from_lines(*lines)) return std::move(*result);
    return with_fault(
        WIFSIGNALED(*status)
            ? fmt::format("the check of the GPUs was ended by signal {}", WTERMSIG(*status))
            : std::string("the check of the GPUs ended without a result"));
}

void report(const std::string& path, const Result& result) {
    const auto task = mpi_bridge::process_environment("SLURM_PROCID").value_or("0");
    mpi_bridge::write_record(path + "." + task + ".json", {{"schema", "mpi_bridge-gpus/v1"},
                                                           {"fault", result.fault},
                                                           {"gpus", result.gpus},
                                                           {"driver", result.driver},
                                                           {"slow", result.slow},
                                                           {"host", result.host},
                                                           {"peers", result.peers}});
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
        std::fputs(help, stdout);
        return 0;
    }
    const bool reports = argc == 3 && std::strcmp(argv[1], "--report") == 0;
    if (argc != 1 && !reports) {
        std::fprintf(stderr, "mpi_bridge_gpus: the command line is wrong\n%s", help);
        return usage_error;
    }
    const Result result = check_in_child();
    if (!result.none.empty()) {
        std::fprintf(stderr, "mpi_bridge_gpus: nothing to check: %s\n", result.none.c_str());
        return 0;
    }
    if (reports) report(argv[2], result);
    if (!result.slow.empty()) std::fprintf(stderr, "mpi_bridge_gpus: %s\n", result.slow.c_str());
    if (result.fault.empty()) return 0;
    std::fprintf(stderr, "mpi_bridge_gpus: %s\n", result.fault.c_str());
    return failed;
}

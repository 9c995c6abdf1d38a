// SPDX-License-Identifier: Apache-2.0
//
// Checks the GPUs of one host before a job's real work starts and fails in a less obvious way: as
// many are visible as Slurm has given, and each takes a context and memory and returns what was
// copied to it. It also names what a job may run with: a GPU that copies at less than half of the
// speed of the others, direct copies between two GPUs that change the bytes or never end, and an
// allreduce over NCCL that does. A child process makes all calls of the driver and of NCCL, because
// a call that never returns is what a broken GPU may answer with.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
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
#include "gpu/cuda/library.hpp"
#include "gpu/nccl/library.hpp"
#include "tools/gpus/allreduce.hpp"
#include "tools/gpus/compare.hpp"
#include "tools/gpus/gpu.hpp"
#include "trace/record_file.hpp"

namespace {

namespace cuda = mpi_bridge::cuda;
using Clock = std::chrono::steady_clock;

// A driver that nobody else has kept awake needs seconds for each GPU
// (https://docs.nvidia.com/deploy/driver-persistence/). The launcher waits 60 s.
constexpr std::chrono::seconds limit{45};
// Sixteen GPUs have 240 ways between them. What has not had its turn by then is not tried.
constexpr std::chrono::seconds time_for_direct_copies{3};
// Where PCI redirects such copies, they may never end.
constexpr std::chrono::seconds limit_of_direct_copies{6};
// NCCL alone takes seconds to load and to connect eight GPUs.
constexpr std::chrono::seconds limit_of_allreduce{15};
constexpr std::chrono::seconds latest_begin_of_allreduce{35};
// The last process that leaves a GPU may take as long to put it to sleep as to wake it.
constexpr std::chrono::seconds time_with_end{55};
constexpr const char* without_direct_copies =
    "; with NCCL_P2P_DISABLE=1, NCCL goes through the host's memory instead";
constexpr int failed = 1;
constexpr int usage_error = 2;

constexpr const char* help =
    "Usage: mpi_bridge_gpus [--report PATH]\n"
    "\n"
    "Checks the GPUs of this host: that CUDA sees as many as CUDA_VISIBLE_DEVICES names,\n"
    "that each one takes memory and returns what was copied to it, that what two of them copy\n"
    "to each other directly arrives unchanged (not with NCCL_P2P_DISABLE=1), that NCCL, if it is\n"
    "found, reduces among them, and whether one copies at less than half of the speed of the\n"
    "others.\n"
    "\n"
    "  --report PATH  also write the result, as JSON, to PATH.TASK.json\n"
    "  --help         this text\n"
    "\n"
    "Usually takes some seconds, and ends within 60 s. The exit code is 0 if all GPUs can be\n"
    "used, 1 if not, and 2 if the command line is wrong. A slow GPU, direct copies and an\n"
    "allreduce that go wrong are only reported.\n"
    "\n"
    "Example: srun -N4 --ntasks-per-node=1 --gpus-per-node=8 mpi_bridge_gpus\n";

// What is known of the GPUs, by the keys of the report; a key that is absent is not known. The
// child tells it line by line, so that it is not lost if a later call of the driver never returns.
using Told = std::map<std::string, std::string, std::less<>>;
using Tell = std::function<void(std::string_view key, const std::string& text)>;

// Keys that are not in the report: why there is nothing to check, that each GPU by itself is
// checked, the two GPUs between which copies come next, that these are checked, what NCCL is at,
// and that all is checked.
constexpr std::string_view nothing = "nothing";
constexpr std::string_view checked = "checked";
constexpr std::string_view pair = "pair";
constexpr std::string_view copied = "copied";
constexpr std::string_view stage = "stage";
constexpr std::string_view done = "done";

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

// Whether NCCL would copy directly between GPUs at all, as far as the environment says. NCCL takes
// 1 alone as yes.
bool uses_direct_copies() {
    const auto disabled = mpi_bridge::process_environment("NCCL_P2P_DISABLE").value_or("");
    const auto level = mpi_bridge::process_environment("NCCL_P2P_LEVEL").value_or("");
    return std::strtol(disabled.c_str(), nullptr, 0) != 1 && level != "0" && level != "LOC";
}

// Tells of direct copies. What is wrong with them is not a fault: NCCL does not use all of them.
void check_direct_copies(std::vector<mpi_bridge::gpus::Gpu>& gpus, const Tell& tell) {
    const auto speeds = mpi_bridge::gpus::compare_with_each_other(
        gpus, time_for_direct_copies, [&](const std::string& next) { tell(pair, next); });
    if (!speeds) {
        tell("direct", speeds.error().text + without_direct_copies);
        return;
    }
    tell("direct", speeds->slow);
    tell("peers", fmt::format("{:.0f}", speeds->usual));
}

// NCCL is to reduce among the GPUs of this host alone, and to go on where it would wait.
void prepare_for_nccl() {
    // The address where rank 0 of the job listens.
    unsetenv("NCCL_COMM_ID");
    unsetenv("NCCL_DEBUG_FILE");
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

// Tells of NCCL among the GPUs. Ends the process once it has: to give back what NCCL holds may
// hang.
void check_allreduce(const std::vector<mpi_bridge::gpus::Gpu>& gpus, const Tell& tell) {
    prepare_for_nccl();
    tell(stage, "loading NCCL");
    const auto nccl = mpi_bridge::nccl::library();
    if (!nccl) return tell("ncclUnchecked", nccl.error().text);
    mpi_bridge::gpus::AllreduceNews news;
    news.stage = [&tell](std::string_view what) { tell(stage, std::string(what)); };
    news.outcome = [&tell](const mpi_bridge::Outcome<double>& speed) {
        if (speed)
            tell("allreduce", fmt::format("{:.0f}", *speed));
        else
            tell("nccl", speed.error().text);
        tell(done, {});
        _exit(0);
    };
    static_cast<void>(mpi_bridge::gpus::allreduce_over_nccl(**nccl, gpus, news));
}

void check_gpus(Clock::time_point began, const Tell& tell) {
    tell("driver", driver_version());
    const auto expected = expected_gpus();
    if (expected && expected->most == 0) return tell(nothing, "CUDA_VISIBLE_DEVICES names no GPU");
    const auto library = cuda::library();
    if (!library) return tell(has_gpus_of_others_only() ? nothing : "fault", library.error().text);
    const cuda::Library& cuda = **library;
    int count = 0;
    if (const auto counted = cuda.check(cuda.device_count(&count), "cuDeviceGetCount"); !counted)
        return tell("fault", counted.error().text);
    tell("gpus", std::to_string(count));
    if (expected && (count < expected->least || count > expected->most))
        return tell(
            "fault",
            fmt::format("CUDA sees {} of the {} GPUs in CUDA_VISIBLE_DEVICES={}", count,
                        expected->most,
                        mpi_bridge::process_environment("CUDA_VISIBLE_DEVICES").value_or("")));
    std::vector<mpi_bridge::gpus::Gpu> gpus;
    gpus.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
        gpus.emplace_back(cuda, i);
    const auto speeds = mpi_bridge::gpus::compare_with_host(gpus);
    if (!speeds) return tell("fault", speeds.error().text);
    tell("slow", speeds->slow);
    tell("host", fmt::format("{:.0f}", speeds->usual));
    tell(checked, {});
    if (uses_direct_copies()) check_direct_copies(gpus, tell);
    tell(copied, {});
    if (gpus.size() < 2) return;
    if (Clock::now() > began + latest_begin_of_allreduce)
        return tell("ncclUnchecked", "there was no time left for it");
    check_allreduce(gpus, tell);
}

[[noreturn]] void be_the_child(Clock::time_point began, int pipe) {
    // A child that outlives the check would keep the GPUs busy.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Slurm waits for the end of these, even if a signal cannot end the process.
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        dup2(nowhere, stream);
    const Tell tell = [pipe](std::string_view key, const std::string& text) {
        std::string line = fmt::format("{} {}", key, text);
        std::replace(line.begin(), line.end(), '\n', ' ');
        line += '\n';
        if (write(pipe, line.data(), line.size()) < 0) _exit(failed);
    };
    check_gpus(began, tell);
    for (const auto key : {checked, copied, done})
        tell(key, {});
    // No destructors: the driver may still be at work.
    _exit(0);
}

std::string text_of(const Told& told, std::string_view key) {
    const auto found = told.find(key);
    return found == told.end() ? std::string() : found->second;
}

// Takes the whole lines out of `text`.
void take_lines(std::string& text, Told& told) {
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
        const std::string line = text.substr(0, end);
        const std::size_t blank = std::min(line.find(' '), line.size() - 1);
        told.insert_or_assign(line.substr(0, blank), line.substr(blank + 1));
        text.erase(0, end + 1);
    }
}

// Reads from the child until it has told this key, or nothing more comes. Returns false once the
// time is up.
bool read_until(int pipe, std::string_view key, Clock::time_point end, std::string& text,
                Told& told) {
    while (told.find(key) == told.end()) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        pollfd waiting{pipe, POLLIN, 0};
        if (left <= 0) return false;
        if (poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
        char buffer[4096];
        const ssize_t count = read(pipe, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return true;
        text.append(buffer, static_cast<std::size_t>(count));
        take_lines(text, told);
    }
    return true;
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

std::string how_it_ended(const std::optional<int>& status) {
    return status && WIFSIGNALED(*status) ? fmt::format("was ended by signal {}", WTERMSIG(*status))
                                          : std::string("ended without a result");
}

Told with_fault(std::string fault) {
    return {{"fault", std::move(fault)}};
}

Told check_in_child() {
    int ends[2];
    if (pipe(ends) != 0) return with_fault(std::string("pipe: ") + std::strerror(errno));
    const auto began = Clock::now();
    const pid_t child = fork();
    if (child < 0) return with_fault(std::string("fork: ") + std::strerror(errno));
    if (child == 0) {
        close(ends[0]);
        be_the_child(began, ends[1]);
    }
    close(ends[1]);
    Told told;
    std::string text;
    const auto end = began + limit;
    if (!read_until(ends[0], checked, end, text, told)) {
        // It may be inside a call that no signal ends, so that nobody can wait for it.
        kill(child, SIGKILL);
        return with_fault(
            fmt::format("the check of the GPUs did not end within {} s: a call of the driver hangs",
                        limit.count()));
    }
    if (told.find(checked) == told.end())
        return with_fault("the check of the GPUs " + how_it_ended(status_of(child, end)));
    // Returns how the child has failed to tell the key in this time, in words. It is gone then, or
    // cannot be ended.
    const auto latest_end = began + time_with_end;
    bool gone = false;
    const auto failed_to_tell = [&](std::string_view key,
                                    std::chrono::seconds time) -> std::optional<std::string> {
        const bool in_time = read_until(ends[0], key, Clock::now() + time, text, told);
        if (told.find(key) != told.end()) return std::nullopt;
        if (!in_time) kill(child, SIGKILL);
        const auto status = status_of(child, latest_end);
        gone = status.has_value();
        if (in_time) return how_it_ended(status);
        return fmt::format("did not end within {} s", time.count());
    };
    if (const auto how = failed_to_tell(copied, limit_of_direct_copies)) {
        told["direct"] = fmt::format("{}: the direct copy {}{}", text_of(told, pair), *how,
                                     without_direct_copies);
        told["ncclUnchecked"] = "the check did not come to it";
    } else if (const auto hung = failed_to_tell(done, limit_of_allreduce)) {
        told["nccl"] = fmt::format("the check of an allreduce over NCCL {}; it was at: {}", *hung,
                                   text_of(told, stage));
    } else {
        gone = status_of(child, latest_end).has_value();
    }
    if (!gone) told["fault"] = "a call of the driver hangs at the end of the check of the GPUs";
    return told;
}

void report(const std::string& path, const Told& told) {
    const auto task = mpi_bridge::process_environment("SLURM_PROCID").value_or("0");
    std::vector<std::pair<std::string_view, std::string_view>> members = {
        {"schema", "mpi_bridge-gpus/v1"}};
    for (const char* key : {"fault", "gpus", "driver", "slow", "host", "direct", "peers", "nccl",
                            "allreduce", "ncclUnchecked"}) {
        const auto found = told.find(key);
        members.emplace_back(key, found == told.end() ? std::string_view() : found->second);
    }
    mpi_bridge::write_record(path + "." + task + ".json", members);
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
    const Told told = check_in_child();
    if (const std::string why = text_of(told, nothing); !why.empty()) {
        std::fprintf(stderr, "mpi_bridge_gpus: nothing to check: %s\n", why.c_str());
        return 0;
    }
    if (reports) report(argv[2], told);
    for (const char* key : {"slow", "direct", "nccl", "fault"}) {
        const std::string text = text_of(told, key);
        if (!text.empty()) std::fprintf(stderr, "mpi_bridge_gpus: %s\n", text.c_str());
    }
    return text_of(told, "fault").empty() ? 0 : failed;
}

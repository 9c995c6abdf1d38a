// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/usage/sampler.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/text.hpp"
#include "node/node_name.hpp"
#include "node/usage/cgroup.hpp"
#include "node/usage/network.hpp"
#include "node/usage/nvml.hpp"
#include "node/usage/processes.hpp"
#include "node/usage/waited_times.hpp"
#include "record/job_files.hpp"
#include "spank/protocol.h"

namespace batchai::node {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds usual_interval{10};
constexpr seconds longest_interval{3600};
constexpr int samples_of_an_interval = 1000;

// How often the sampler looks for the tasks before they run, and whether somebody watches.
constexpr milliseconds between_first_looks{500};
constexpr seconds between_late_looks{2};
constexpr seconds first_looks{20};
constexpr seconds between_questions{3};
constexpr seconds live_interval{2};
// The last sample is taken within this time, or not at all: slurmstepd waits for it.
constexpr milliseconds for_last_sample{1000};

}  // namespace

base::Result<seconds> usage_interval(std::string_view text) {
    if (text.empty()) return usual_interval;
    const auto number = base::number_in<int>(text);
    if (number && *number >= 0 && *number <= longest_interval.count()) return seconds(*number);
    return base::fail(fmt::format("{} is \"{}\", so what the job's steps use is not noted",
                                  record::usage_interval_variable, text),
                      {}, fmt::format("set it to 0 to {} seconds", longest_interval.count()));
}

void SamplePace::taken(seconds elapsed) {
    if (++count_ % samples_of_an_interval == 0) interval_ *= 2;
    // 0, 1, 2, 4, 8, … What was missed while the process was stopped is not made up for.
    const seconds pause = std::clamp(next_, std::min(seconds(1), interval_), interval_);
    next_ = std::max(next_, elapsed) + pause;
}

namespace {

std::int64_t memory_of_host(const StepProcesses& processes) {
    const std::string text = processes.text_of("meminfo");
    return 1024 * (number_of_line(text, "MemTotal") - number_of_line(text, "MemFree"));
}

// The variables are those of a task, which may have changed them. Numbers that no node has are 0.
int count_in(std::string_view text, int most) {
    const int number = base::number_in<int>(text).value_or(0);
    return number > 0 && number <= most ? number : 0;
}

int count_in(const std::optional<std::string_view>& text, int most) {
    return text ? count_in(*text, most) : 0;
}

constexpr int most_cpus = 1 << 16;
constexpr int most_memory = 1 << 26;  // MiB

// What Slurm and `batchai run` tell the tasks of the job's share of this node. The counts of
// SLURM_JOB_CPUS_PER_NODE are for the nodes of the job, of which a step may use some, so they are
// used only if all nodes have the same.
int cpus_of_job(std::string_view environment) {
    const std::string_view counts =
        variable_in(environment, "SLURM_JOB_CPUS_PER_NODE").value_or(std::string_view());
    if (counts.find(',') == std::string_view::npos) {
        const int count = count_in(counts.substr(0, counts.find('(')), most_cpus);
        if (count > 0) return count;
    }
    return count_in(variable_in(environment, "SLURM_CPUS_ON_NODE"), most_cpus);
}

std::int64_t memory_of_job(std::string_view environment, int cpus) {
    constexpr std::int64_t mebi = 1 << 20U;
    const int of_node =
        count_in(variable_in(environment, BATCHAI_MEM_PER_NODE_VARIABLE), most_memory);
    if (of_node > 0) return of_node * mebi;
    return count_in(variable_in(environment, BATCHAI_MEM_PER_CPU_VARIABLE), most_memory) * mebi *
           cpus;
}

// Reads a list such as "0,2-3".
std::vector<int> gpus_of_step(std::string_view environment) {
    auto list = variable_in(environment, "SLURM_STEP_GPUS");
    if (!list || list->empty()) list = variable_in(environment, "SLURM_JOB_GPUS");
    std::vector<int> numbers;
    constexpr int most = 1024;
    for (const std::string_view part : base::split(list.value_or(std::string_view()), ',')) {
        const std::size_t dash = part.find('-');
        const auto first = base::number_in<int>(part.substr(0, dash));
        const auto last =
            dash == std::string_view::npos ? first : base::number_in<int>(part.substr(dash + 1));
        if (!first || !last || *first < 0 || *last >= most) continue;
        for (int number = *first; number <= *last; ++number)
            numbers.push_back(number);
    }
    return numbers;
}

// Takes samples once the first task runs.
class Samples {
  public:
    Samples(StepProcesses& processes, const SamplerRequest& request, const Trace& trace)
        : processes_(processes),
          begin_(Clock::now()),
          cgroup_(StepCgroup::find(
              processes.text_of(std::to_string(processes.first_task()) + "/cgroup"),
              request.job_id)),
          network_(net_dev()),
          traffic_(network_.read(net_dev())),
          cpu_of_ended_(processes.cpu_seconds_of_ended_tasks()) {
        const std::string& environment = processes.environment();
        head_.start = base::now();
        head_.interval = static_cast<int>(request.interval.count());
        head_.cpus = cpus_of_job(environment);
        head_.memory = memory_of_job(environment, head_.cpus);
        const CgroupUse cgroup = cgroup_.read();
        cpu_of_cgroup_ = cgroup.cpu_seconds.value_or(0);
        if (head_.memory == 0) head_.memory = cgroup.limit.value_or(0);
        last_read_ = head_.start;
        const std::vector<int> gpus = gpus_of_step(environment);
        head_.gpus = static_cast<int>(gpus.size());
        open_nvml(gpus, trace);
    }

    [[nodiscard]] const record::UsageHead& head() const { return head_; }
    [[nodiscard]] Clock::time_point begin() const { return begin_; }

    [[nodiscard]] record::UsageSample take() {
        record::UsageSample sample = take_counts();
        const auto& waited = waited_.look(processes_.processes_of_ranks(), Clock::now());
        for (record::RankUsage& rank : sample.ranks) {
            const auto known = waited.find(rank.rank);
            if (known == waited.end()) continue;
            rank.waited = known->second.seconds;
            rank.meetings = known->second.meetings;
        }
        return sample;
    }

    // Once the tasks have ended, only slurmstepd knows what they used since the sample before.
    [[nodiscard]] record::UsageSample take_last() {
        record::UsageSample sample = take_counts();
        const double of_tasks = processes_.cpu_seconds_of_ended_tasks() - cpu_of_ended_;
        sample.cpu_seconds = std::max(sample.cpu_seconds, of_tasks);
        if (sample.ranks.size() == 1)
            sample.ranks.front().cpu_seconds = std::max(sample.ranks.front().cpu_seconds, of_tasks);
        return sample;
    }

  private:
    [[nodiscard]] record::UsageSample take_counts() {
        processes_.look();
        record::UsageSample sample;
        sample.time =
            head_.start + std::chrono::duration_cast<base::Time::duration>(Clock::now() - begin_);
        std::int64_t peak_of_ranks = 0;
        std::int64_t peak_of_rank = 0;
        for (const auto& [rank, use] : processes_.ranks()) {
            sample.cpu_seconds += use.cpu_seconds;
            sample.memory += use.memory;
            sample.threads += use.threads;
            sample.read += use.read;
            sample.written += use.written;
            sample.copied += use.copied;
            peak_of_ranks += use.peak;
            peak_of_rank = std::max(peak_of_rank, use.peak);
            sample.ranks.push_back({.rank = rank,
                                    .cpu_seconds = use.cpu_seconds,
                                    .memory = use.memory,
                                    .threads = use.threads,
                                    .read = use.read,
                                    .written = use.written});
        }
        // Pages that processes share count several times, but the host has no more than it uses.
        const std::int64_t host = memory_of_host(processes_);
        sample.memory = std::min(sample.memory, host);
        peak_ = std::max(peak_, std::min(peak_of_ranks, std::max(host, peak_of_rank)));
        use_cgroup(sample, peak_of_rank);
        peak_ = std::max(peak_, sample.memory);
        sample.peak = peak_;
        cpu_ = sample.cpu_seconds = std::max(cpu_, sample.cpu_seconds);
        const NetworkTotals traffic = network_.read(net_dev());
        sample.received = std::max<std::int64_t>(traffic.received - traffic_.received, 0);
        sample.sent = std::max<std::int64_t>(traffic.sent - traffic_.sent, 0);
        if (nvml_) {
            sample.gpus = nvml_->read();
            add_busy_time(sample);
        }
        return sample;
    }

    [[nodiscard]] std::string net_dev() const { return processes_.text_of("self/net/dev"); }

    void use_cgroup(record::UsageSample& sample, std::int64_t peak_of_rank) {
        const CgroupUse use = cgroup_.read();
        if (use.cpu_seconds)
            sample.cpu_seconds = std::max(sample.cpu_seconds, *use.cpu_seconds - cpu_of_cgroup_);
        if (!use.memory) return;
        sample.memory = *use.memory;
        peak_of_cgroup_ = std::max({peak_of_cgroup_, *use.memory, peak_of_rank});
        // It was reached between two samples, and the memory is free again.
        if (use.ran_out)
            peak_of_cgroup_ = std::max(peak_of_cgroup_, use.limit.value_or(head_.memory));
        peak_ = peak_of_cgroup_;
    }

    // A sample stands for the time since the sample before.
    void add_busy_time(record::UsageSample& sample) {
        const double whole = seconds_between(head_.start, sample.time);
        const double part = seconds_between(last_read_, sample.time);
        last_read_ = sample.time;
        for (record::GpuUsage& gpu : sample.gpus) {
            double& busy = busy_seconds_[gpu.index];
            busy += part * gpu.busy.value_or(0) / 100;
            if (gpu.busy && whole > 0)
                gpu.mean_busy = static_cast<int>(std::lround(100 * busy / whole));
        }
    }

    static double seconds_between(base::Time from, base::Time to) {
        return std::max(0.0, std::chrono::duration<double>(to - from).count());
    }

    void open_nvml(const std::vector<int>& numbers, const Trace& trace) {
        if (numbers.empty()) return;
        auto nvml = Nvml::open(numbers);
        if (nvml)
            nvml_ = std::move(*nvml);
        else
            trace.line("the use of the GPUs is not noted: " + nvml.error().text());
    }

    StepProcesses& processes_;
    Clock::time_point begin_;
    record::UsageHead head_;
    StepCgroup cgroup_;
    NetworkCounters network_;
    NetworkTotals traffic_;
    std::optional<Nvml> nvml_;
    base::Time last_read_{};
    std::map<int, double> busy_seconds_;
    WaitedTimes waited_;
    double cpu_of_ended_;
    double cpu_of_cgroup_ = 0;
    double cpu_ = 0;
    std::int64_t peak_ = 0;
    std::int64_t peak_of_cgroup_ = 0;
};

enum class Woken { in_time, cancelled, at_the_end };

// Waits until that time, until the step is over, or until the job is being cancelled: Slurm then
// sends TERM, and kills this process, too, if the tasks take too long to end. With control groups
// of version 2, where this process is not in the step's, it does neither.
Woken wait_until(Clock::time_point time, int stop, const base::HeldSignals& signals) {
    while (true) {
        const auto left = std::chrono::ceil<milliseconds>(time - Clock::now()).count();
        std::array<pollfd, 2> events{
            pollfd{.fd = stop, .events = POLLIN, .revents = 0},
            pollfd{.fd = signals.descriptor(), .events = POLLIN, .revents = 0}};
        const int pause = static_cast<int>(std::max<long>(left, 0));
        const int count = poll(events.data(), events.size(), pause);
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) return Woken::in_time;
        if (count < 0 || events[0].revents != 0) return Woken::at_the_end;
        if (signals.next()) return Woken::cancelled;
    }
}

// Returns false if the step is over before any task runs.
bool wait_for_tasks(StepProcesses& processes, int stop, const base::HeldSignals& signals) {
    const auto begin = Clock::now();
    while (true) {
        processes.look();
        if (!processes.ranks().empty()) return true;
        const auto now = Clock::now();
        const bool early = now - begin < first_looks;
        const auto next = now + (early ? between_first_looks : between_late_looks);
        if (wait_until(next, stop, signals) == Woken::at_the_end) return false;
    }
}

void note_usage(StepProcesses& processes, const SamplerRequest& request, const Trace& trace,
                int stop) {
    const base::HeldSignals signals{SIGTERM};
    if (!wait_for_tasks(processes, stop, signals)) return;
    Samples samples(processes, request, trace);
    record::UsageWriter writer(record::JobFiles(request.job_directory), request.step,
                               request.slurm_step, node_name());
    writer.begin(samples.head());
    SamplePace pace(request.interval);
    auto question = samples.begin();
    auto live_until = samples.begin();
    auto live = Clock::time_point::max();
    while (true) {
        const auto now = Clock::now();
        if (now >= question) {
            question = now + between_questions;
            if (writer.is_wanted()) {
                if (now >= live_until) live = now;
                live_until = now + seconds(record::live_usage_seconds);
            }
        }
        const bool recorded = now >= samples.begin() + pace.next();
        const bool shown = now >= live;
        if (recorded || shown) {
            const auto sample = samples.take();
            if (recorded) {
                writer.add(sample);
                pace.taken(std::chrono::floor<seconds>(now - samples.begin()));
            }
            if (shown) {
                writer.add_live(sample);
                live = now + live_interval;
            }
        }
        if (live != Clock::time_point::max() && now >= live_until) {
            live = Clock::time_point::max();
            // What was seen live must not become less when only the record is left.
            writer.add(samples.take());
            writer.end_live();
        }
        const auto next = std::min({question, live, samples.begin() + pace.next()});
        const Woken woken = wait_until(next, stop, signals);
        if (woken == Woken::at_the_end) break;
        if (woken == Woken::cancelled) {
            if (live != Clock::time_point::max()) writer.add(samples.take());
            writer.remove_live();
        }
    }
    writer.finish(samples.take_last());
}

// Keeps the descriptors that the sampler needs, and frees the others: batchai.so waits for the end
// of some of them.
int work(const SamplerRequest& request, const Trace& trace, const base::Pipe& stop,
         const StepName& step) {
    for (const int number : {SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE})
        signal(number, SIG_IGN);
    prctl(PR_SET_NAME, "batchai-usage");
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const int kept = stop.read_end.get();
    const auto rest = static_cast<unsigned int>(kept);
    if (rest > 3) close_range(3, rest - 1, 0);
    close_range(rest + 1, ~0U, 0);
    base::FileDescriptor proc(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!proc.valid()) return 1;
    StepProcesses processes(std::move(proc), step);
    note_usage(processes, request, trace, kept);
    return 0;
}

}  // namespace

base::Result<Sampler> Sampler::start(const SamplerRequest& request, const Trace& trace) {
    constexpr std::string_view allowed =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-";
    if (request.step.size() > BATCHAI_USAGE_LIMIT || request.step.starts_with('.') ||
        request.step.find_first_not_of(allowed) != std::string::npos)
        return base::fail(fmt::format("\"{}\" cannot be the name of a step", request.step));
    auto stop = TRY(base::make_pipe());
    const StepName step{.job_id = request.job_id,
                        .step_id = std::to_string(request.slurm_step),
                        .node = node_of_shared_host().value_or(""),
                        .slurmstepd = getppid(),
                        .anchor = getpid()};
    auto child = TRY(base::Child::fork([&] { return work(request, trace, stop, step); }, true));
    return Sampler(std::move(child), std::move(stop));
}

void Sampler::end() {
    if (child_.process() < 0) return;
    // A copy of the pipe may be open in the job's keeper, so its end would not be seen.
    static_cast<void>(base::write_all(stop_.write_end.get(), "e"));
    if (child_.ended_by(Clock::now() + for_last_sample)) return;
    child_.signal(SIGKILL);
    // It may hang in a file system that does not answer, and nobody waits for it.
    child_.release();
}

}  // namespace batchai::node

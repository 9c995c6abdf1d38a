// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "record/job_files.hpp"

// What the steps of a job use on their nodes. On each node, batchai-node (node/usage/) takes
// samples while a step runs and writes them to a text file of the step and the node, one line each:
//
//     batchai-usage/v1 start=2026-06-21T17:15:18.288000+00:00 interval=10 cpus=8 memory=16384
//     @10.0 cpu=79.2 mem=9210 peak=9210 thr=24 io=5120,300 net=812,790 r=0:9.9:1150,:9.8:1149
//     end
//
// With GPUs, the first line ends with their number ("gpus=8").
//
// Times are seconds since "start", memory is MiB, and I/O (read, written), the network (received,
// sent) and what calls such as read() and write() have copied ("rw=", in live samples) are KiB. All
// but memory, threads and the GPUs are sums since the step began. A number that is not known is
// "-". A rank is its number, CPU time and memory, in live samples also its threads and its I/O, and
// then how long and how often it has waited in collectives, if it uses mpi_bridge; the number is
// left out if it is one more than that of the rank before. A GPU ("g=") is its number, how busy it
// is in percent, its memory, its power in watts, and how busy it was since the step began.
namespace batchai::record {

// A variable of the job, from its file or the site's "environment": the seconds between two samples
// of what its steps use, at first. "0" turns the samples off.
inline constexpr const char* usage_interval_variable = "BATCHAI_USAGE_INTERVAL";

// A rank's use of one node. Ranks have the numbers of PMIx (SLURM_PROCID).
struct RankUsage {
    int rank = 0;
    double cpu_seconds = 0;
    std::int64_t memory = 0;  // bytes; pages that its processes share count for each of them
    // Only in live samples.
    std::optional<int> threads{};
    std::optional<std::int64_t> read{};  // bytes since the step began
    std::optional<std::int64_t> written{};
    // Seconds in collectives of mpi_bridge, if the rank uses it. Not in the last sample, for which
    // nobody can look into the rank any more.
    std::optional<double> waited{};
    std::int64_t meetings = 0;  // how often it has waited, if at all

    bool operator==(const RankUsage&) const = default;
};

struct GpuUsage {
    int index = 0;                         // the N of /dev/nvidiaN
    std::optional<int> busy{};             // percent
    std::optional<std::int64_t> memory{};  // bytes that are used on it, by whomever
    std::optional<int> watts{};
    std::optional<int> mean_busy{};  // percent, since the step began

    bool operator==(const GpuUsage&) const = default;
};

struct UsageSample {
    base::Time time{};
    // Of the step's tasks on the node. Sums since the step began, except for memory and threads.
    double cpu_seconds = 0;
    std::int64_t memory = 0;  // bytes
    std::int64_t peak = 0;    // the most memory until now
    int threads = 0;
    std::int64_t read = 0;  // bytes; 0 if the kernel does not tell
    std::int64_t written = 0;
    std::int64_t copied = 0;  // by calls such as read() and write(); only in live samples
    // Of the node's interfaces except "lo", for whomever.
    std::int64_t received = 0;
    std::int64_t sent = 0;
    std::vector<RankUsage> ranks{};  // in their order
    std::vector<GpuUsage> gpus{};    // those of the step; none if there is no NVML

    bool operator==(const UsageSample&) const = default;
};

// What is known when the first task of the step runs on the node.
struct UsageHead {
    base::Time start{};
    int interval = 0;         // seconds between two samples, which grow while the step runs
    int cpus = 0;             // that Slurm has given the step on the node; 0: unknown
    std::int64_t memory = 0;  // bytes that the job has asked for on the node; 0: unknown, or all
    // That the step has on the node, also if nobody can tell how busy they are. An earlier version
    // does not note it.
    int gpus = 0;

    bool operator==(const UsageHead&) const = default;
};

// What a step has used on a node.
struct NodeUsage {
    std::string step;  // "1" for the ranks of attempt 1, "1-2" after a restart, "1.preparation", …
    int number = 0;    // Slurm's, of the step
    std::string node;
    UsageHead head;
    std::vector<UsageSample> samples;  // the oldest first
    // The step has ended on the node. It is false for a step that was killed with its sampler.
    bool ended = false;
};

// The last line of a file whose step has ended.
inline constexpr std::string_view usage_end = "end";
enum class SampleDetail { record, live };
// Returns a line with its newline.
[[nodiscard]] std::string usage_line(const UsageHead& head);
[[nodiscard]] std::string usage_line(const UsageSample& sample, const UsageHead& head,
                                     SampleDetail detail);

// Reads the text of such a file. Lines that are incomplete, or that this version does not know, are
// passed over. If there are more than `most` samples, only every second one is kept, and so on; the
// last one is always there.
[[nodiscard]] NodeUsage usage_in(std::string_view text, std::size_t most);
inline constexpr std::size_t most_samples = 2000;

// Returns what the steps of an attempt have used, sorted by step, number and node. There is nothing
// if no samples were taken. A file that cannot be read is passed over.
[[nodiscard]] std::vector<NodeUsage> usage_of_attempt(const JobFiles& files, int attempt,
                                                      std::size_t most = most_samples);
// Returns the newest samples of the steps that run, from the files of live samples where there are
// any, with at most `most` samples each. With `start` only those of this start of the ranks, and of
// what was started with them.
[[nodiscard]] std::vector<NodeUsage> newest_usage(const JobFiles& files, int attempt,
                                                  std::string_view start = {},
                                                  std::size_t most = 2);

// Removes what an earlier run in the same allocation has left, whose attempt had the same number.
void forget_usage(const JobFiles& files, int attempt);
// Removes the files of live samples, which a sampler that was killed could not remove.
void forget_live_usage(const JobFiles& files, int attempt);

// Returns the kind of a step: "ranks", or the word that its name ends with, such as "preparation".
[[nodiscard]] std::string kind_of_usage(std::string_view step);

// Asks the nodes for live samples. They give them for a while, so it is called again and again.
[[nodiscard]] base::Result<void> ask_for_live_usage(const JobFiles& files);
inline constexpr int live_usage_seconds = 20;

// Writes the files of a step on its node. Errors are ignored, because a full disk must not fail the
// job. The files have limits, so that a job that runs for months leaves little.
class UsageWriter {
  public:
    UsageWriter(const JobFiles& files, std::string_view step, int number, std::string_view node);
    ~UsageWriter() { remove_live(); }
    UsageWriter(const UsageWriter&) = delete;
    UsageWriter& operator=(const UsageWriter&) = delete;

    // Replaces what an earlier step of the same name has left.
    void begin(const UsageHead& head);
    void add(const UsageSample& sample);
    // Adds the last sample.
    void finish(const UsageSample& last);
    void add_live(const UsageSample& sample);
    // Removes the file of live samples for good.
    void remove_live();
    // Empties the file of live samples, because nobody watches any more.
    void end_live();
    // Returns whether somebody has asked for live samples since the last call.
    [[nodiscard]] bool is_wanted();

  private:
    std::string path_;
    std::string live_path_;
    std::string wanted_path_;
    UsageHead head_;
    base::FileDescriptor file_;
    base::FileDescriptor live_;
    std::size_t written_ = 0;
    std::size_t live_written_ = 0;
    std::string last_live_;
    bool torn_ = false;  // the last line is incomplete
    std::optional<std::int64_t> wanted_;
};

}  // namespace batchai::record

// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "node/reply.hpp"
#include "record/usage.hpp"

namespace batchai::node {

// Returns the interval; 0 if there are to be no samples. An empty text means 10 s.
[[nodiscard]] base::Result<std::chrono::seconds> usage_interval(std::string_view text);

// When samples are taken. The first ones come quickly, so that short steps have some. The interval
// doubles after each 1000 samples, so that a week makes some 6000 of them.
class SamplePace {
  public:
    explicit SamplePace(std::chrono::seconds interval) : interval_(interval) {}

    // Returns the time from the first sample to the next one that is recorded.
    [[nodiscard]] std::chrono::seconds next() const { return next_; }
    // A sample was taken, this long after the first one.
    void taken(std::chrono::seconds elapsed);

  private:
    std::chrono::seconds interval_;
    std::chrono::seconds next_{0};
    int count_ = 0;
};

struct SamplerRequest {
    std::string job_directory;
    std::string step;    // name of the record's files
    int slurm_step = 0;  // Slurm's number of the step
    std::string job_id;  // Slurm's
    std::chrono::seconds interval{10};
};

// A child process that notes what the tasks of this process's step use on this node. It stays in
// the namespaces that this process has when it starts, and ends with this process.
class Sampler {
  public:
    // This process must not have several threads.
    [[nodiscard]] static base::Result<Sampler> start(const SamplerRequest& request,
                                                     const Trace& trace);
    // The tasks have ended: has the last sample taken. Waits only a moment.
    void end();

  private:
    Sampler(base::Child child, base::Pipe stop)
        : child_(std::move(child)), stop_(std::move(stop)) {}

    base::Child child_;
    base::Pipe stop_;  // with both ends, so that nothing happens if the child has ended
};

}  // namespace batchai::node

// SPDX-License-Identifier: Apache-2.0
//
// send, recv and what is made of them, over the messages of mpi_bridge. Each group has a channel of
// its own, so that messages of different groups are not mixed up.
#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <ATen/Functions.h>

#include "arguments.hpp"
#include "backend.hpp"
#include "streams.hpp"

namespace mpi_bridge::torch {

namespace {

using Clock = std::chrono::steady_clock;

/// Whether the host finds the tensor's elements one after the other at its address.
bool is_in_host_memory(const at::Tensor& tensor) {
    return tensor.is_cpu() && is_plain(tensor);
}

/// A limit of several waits; none: without a limit.
class Deadline {
  public:
    explicit Deadline(std::optional<double> seconds) {
        if (seconds) {
            end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(*seconds));
        }
    }

    [[nodiscard]] bool is_set() const { return end_.has_value(); }

    /// For InFlight::wait().
    [[nodiscard]] double seconds_left() const {
        if (!end_) {
            return 0.0;
        }
        return std::max(std::chrono::duration<double>(*end_ - Clock::now()).count(), 0.001);
    }

  private:
    std::optional<Clock::time_point> end_;
};

/// Waits for a message; one that is too late is withdrawn, or left behind.
bool is_done(InFlight& message, const Deadline& deadline) {
    try {
        message.wait(deadline.seconds_left());
    } catch (const Error& error) {
        message.leave_behind();
        if (error.status() != MPIB_ERROR_TIMEOUT || !deadline.is_set()) {
            throw;
        }
        return false;
    }
    message.release();
    return true;
}

}  // namespace

EngineBackend::WorkPtr EngineBackend::send(Tensors& tensors, int to, int tag) {
    require_tag(tag);
    // The program may give its tensor other memory (`tensor.data = ...`) while the message is under
    // way. What detach() returns keeps the memory that it has now.
    auto tensor = tensors.at(0).detach();
    if (!is_in_host_memory(tensor)) {
        // Device memory goes through the host. cpu() waits for what the current stream holds.
        tensor = plain(tensor).cpu();
    }
    return message(InFlight::send(std::move(tensor), job_rank(to), channel(), tag), tensors, {},
                   nullptr);
}

EngineBackend::WorkPtr EngineBackend::recv(Tensors& tensors, int source, int tag) {
    return receive(tensors, job_rank(source), tag, [source](const InFlight&) { return source; });
}

EngineBackend::WorkPtr EngineBackend::recvAnysource(Tensors& tensors, int tag) {
    // torch counts in the order of the group, and the message in ranks of the job.
    return receive(tensors, MPIB_ANY_RANK, tag,
                   [members = group_.members](const InFlight& in_flight) {
                       const auto found = std::ranges::find(members, in_flight.peer());
                       return static_cast<int>(found - members.begin());
                   });
}

EngineBackend::WorkPtr EngineBackend::receive(Tensors& tensors, int from_rank, int tag,
                                              std::function<int(const InFlight&)> source) {
    require_tag(tag);
    const auto tensor = tensors.at(0).detach();
    if (is_in_host_memory(tensor)) {
        return message(InFlight::receive(tensor, from_rank, channel(), tag), tensors, {},
                       std::move(source));
    }
    const auto landed = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
    return message(InFlight::receive(landed, from_rank, channel(), tag), tensors, landed,
                   std::move(source));
}

EngineBackend::WorkPtr EngineBackend::message(InFlight in_flight, const Tensors& tensors,
                                              const at::Tensor& landed,
                                              std::function<int(const InFlight&)> source) {
    EngineWork::Parts parts{.result = tensors,
                            .source = std::move(source),
                            .limit = group_.limit,
                            .group = group_.name};
    parts.in_flight.push_back(std::move(in_flight));
    if (landed.defined()) {
        const auto place = tensors.front().detach();
        parts.finish.emplace_back([landed, place](const auto&) { place.copy_(landed); });
        // A receive ends with a copy in the order of the current stream.
        if (place.is_cuda()) {
            parts.streams.push_back(current_stream(place.device()));
        }
    }
    auto work = c10::make_intrusive<EngineWork>(std::move(parts));
    remember(work, {});
    return work;
}

InFlight EngineBackend::signal(int member, bool receives) const {
    const auto byte = at::zeros({1}, at::kByte);
    const auto on = channel() + ".monitored_barrier";
    return receives ? InFlight::receive(byte, job_rank(member), on, barriers_)
                    : InFlight::send(byte, job_rank(member), on, barriers_);
}

// Scripts look for words of Gloo's errors, which those of these functions have, too.

void EngineBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
    ++barriers_;
    std::optional<double> seconds;  // a negative time is not set
    if (opts.timeout.count() >= 0) {
        seconds = std::chrono::duration<double>(opts.timeout).count();
    }
    if (group_.rank != 0) {
        return report_to_first(seconds);
    }
    TORCH_CHECK(seconds != 0, "Rank ", job_rank(0), " timed out in monitoredBarrier of group ",
                group_.name, ": its timeout is 0");
    await_everybody(seconds, wait_all_ranks);
}

void EngineBackend::await_everybody(std::optional<double> seconds, bool all_ranks) {
    const Deadline deadline(seconds);
    std::vector<InFlight> arrivals;
    for (int member = 1; member < getSize(); ++member) {
        arrivals.push_back(signal(member, true));
    }
    std::vector<int> missing;
    for (int member = 1; member < getSize(); ++member) {
        if (is_done(arrivals[member - 1], deadline)) {
            continue;
        }
        missing.push_back(job_rank(member));
        if (!all_ranks) {
            break;
        }
    }
    if (!missing.empty()) {
        auto ranks = std::to_string(missing.front());
        for (const auto rank : std::span(missing).subspan(1)) {
            ranks += ", " + std::to_string(rank);
        }
        TORCH_CHECK(false, "Rank", missing.size() > 1 ? "s " : " ", ranks,
                    " failed to pass monitoredBarrier of group ", group_.name, " within ",
                    seconds.value_or(-1), " s", all_ranks ? "" : ", and perhaps others");
    }
    std::vector<InFlight> answers;
    for (int member = 1; member < getSize(); ++member) {
        answers.push_back(signal(member, false));
    }
    for (auto& answer : answers) {
        is_done(answer, deadline);
    }
}

void EngineBackend::report_to_first(std::optional<double> seconds) {
    const Deadline deadline(seconds);
    auto report = signal(0, false);
    auto answer = signal(0, true);
    if (is_done(report, deadline) && is_done(answer, deadline)) {
        return;
    }
    TORCH_CHECK(false, "Rank ", job_rank(group_.rank),
                " successfully reached monitoredBarrier, but received errors while waiting for "
                "send/recv from rank ",
                job_rank(0), ": it did not say within ", seconds.value_or(-1),
                " s that all ranks of group ", group_.name,
                " have come; its error names those that have not");
}

}  // namespace mpi_bridge::torch

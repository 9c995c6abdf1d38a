// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include "core/log.hpp"
#include "core/quiet_thread.hpp"
#include "core/this_host.hpp"
#include "trace/timeline_file.hpp"
#include "trace/timeline_text.hpp"

namespace mpi_bridge {
namespace {

// How long an event may stay in memory, which is what a killed process loses.
constexpr std::chrono::milliseconds period{200};

// The size of each of the two buffers: some 60,000 events, more than a step of a large model makes.
constexpr std::size_t queue_bytes = std::size_t{8} << 20;

TimelineOrigin origin_here(int rank, int size) {
    TimelineOrigin origin;
    origin.rank = rank;
    origin.size = size;
    origin.host = host_name();
    if (origin.host.empty()) origin.host = "unknown host";
    origin.boot = boot_id();
    // The two clocks are read one after the other; of several readings the closest pair is used.
    auto nearest = Clock::duration::max();
    for (int reading = 0; reading < 5; ++reading) {
        const auto before = Clock::now();
        const auto realtime = std::chrono::system_clock::now().time_since_epoch();
        const auto took = Clock::now() - before;
        if (took >= nearest) continue;
        nearest = took;
        origin.steady = before + took / 2;
        origin.realtime_ns = std::chrono::nanoseconds(realtime).count();
    }
    return origin;
}

}  // namespace

// The thread that writes one timeline.
class Timeline::Writer {
  public:
    // `file` has its header already.
    Writer(EventQueue& queue, std::atomic<bool>& on, std::unique_ptr<TimelineFile> file,
           TimelineText text)
        : queue_(queue), on_(on), file_(std::move(file)), text_(std::move(text)) {
        thread_ = start_quiet_thread([this] { run(); });
        pthread_setname_np(thread_.native_handle(), "mpib-timeline");
    }

    // Waits until everything is written. The queue must have been closed.
    [[nodiscard]] Done finish() {
        thread_.join();
        if (failure_) return tl::unexpected<Failure>(*failure_);
        return {};
    }

    [[nodiscard]] const std::string& path() const { return file_->path(); }

  private:
    void run() noexcept {
        try {
            while (write_next()) {
            }
        } catch (const std::exception& fault) {
            give_up({MPIB_ERROR_INTERNAL, fmt::format("timeline: {}", fault.what())});
        }
    }

    // Returns false if that was the last.
    bool write_next() {
        const auto taken = queue_.take(Clock::now() + period);
        text_.clear();
        for_each_event(taken.events, [this](const Event& event) { text_.add(event); });
        if (taken.dropped > 0) note_dropped(taken.dropped);
        if (!text_.text().empty()) {
            if (Done written = file_->append(text_.text()); !written) {
                give_up(std::move(written).error());
                return false;
            }
        }
        return !taken.closed;
    }

    void note_dropped(std::uint64_t count) {
        text_.add_dropped(count, Clock::now());
        if (std::exchange(told_of_drops_, true)) return;
        log(LogLevel::warning,
            fmt::format(
                "the timeline loses events, because \"{}\" is written more slowly than they "
                "come; marks \"events dropped\" in it say how many",
                file_->path()));
    }

    void give_up(Failure failure) noexcept {
        on_ = false;
        queue_.close();
        try {
            log(LogLevel::error, failure.text + "; the timeline ends here");
        } catch (...) {
            // stop() reports the failure.
        }
        failure_ = std::move(failure);
    }

    EventQueue& queue_;
    std::atomic<bool>& on_;
    std::unique_ptr<TimelineFile> file_;
    TimelineText text_;
    bool told_of_drops_ = false;
    std::optional<Failure> failure_;  // read after the thread's end
    std::thread thread_;
};

Timeline::Timeline() = default;

Timeline::~Timeline() {
    const Done ignored = stop();
    static_cast<void>(ignored);
}

Done Timeline::start(std::string_view path, int rank, int size) {
    const std::lock_guard lock(control_);
    if (writer_ != nullptr) {
        return fail(
            MPIB_ERROR_INVALID_ARGUMENT,
            fmt::format("timeline: \"{}\" is being written; stop it first", writer_->path()));
    }
    auto file = TRY(TimelineFile::create(fmt::format("{}.{}.json", path, rank)));
    TimelineText text(origin_here(rank, size));
    text.add_header();
    TRY(file->append(text.text()));

    queue_.open(queue_bytes);
    on_ = true;
    try {
        writer_ = std::make_unique<Writer>(queue_, on_, std::move(file), std::move(text));
    } catch (const std::system_error& fault) {
        on_ = false;
        queue_.close();
        queue_.release();
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("timeline: cannot start its thread: {}", fault.what()));
    }
    owner_ = getpid();
    return {};
}

Done Timeline::stop() {
    // The thread of the parent does not exist in a child, and its locks may be held for ever.
    if (owner_ != 0 && owner_ != getpid()) {
        on_ = false;
        return {};
    }
    const std::lock_guard lock(control_);
    if (writer_ == nullptr) return {};
    on_ = false;
    queue_.close();
    Done done = writer_->finish();
    writer_.reset();
    queue_.release();
    return done;
}

void Timeline::record_begin(const Activity& activity, const Details& details) noexcept {
    Event event;
    event.type = EventType::begin;
    event.phase = activity.phase;
    event.kind = activity.kind;
    event.process_set = activity.process_set;
    event.details = details;
    event.text = activity.tensor;
    queue_.push(event);
}

void Timeline::record_end(const Activity& activity, bool ok) noexcept {
    Event event;
    event.type = EventType::end;
    event.phase = activity.phase;
    event.kind = activity.kind;
    event.process_set = activity.process_set;
    event.ok = ok;
    event.text = activity.tensor;
    queue_.push(event);
}

void Timeline::record_tick(const Activity& activity, int rank) noexcept {
    Event event;
    event.type = EventType::tick;
    event.kind = activity.kind;
    event.process_set = activity.process_set;
    event.rank = rank;
    event.text = activity.tensor;
    queue_.push(event);
}

void Timeline::record_mark(std::string_view text, const Details& details) noexcept {
    Event event;
    event.type = EventType::mark;
    event.details = details;
    event.text = text;
    queue_.push(event);
}

void Timeline::record_device(const Activity& activity, Clock::time_point start,
                             std::chrono::nanoseconds duration, const Details& details) noexcept {
    Event event;
    event.type = EventType::device;
    event.phase = activity.phase;
    event.kind = activity.kind;
    event.process_set = activity.process_set;
    event.time = start;
    event.duration = duration;
    event.details = details;
    event.text = activity.tensor;
    queue_.push(event);
}

}  // namespace mpi_bridge

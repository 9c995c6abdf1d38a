// SPDX-License-Identifier: Apache-2.0
#include "liveness/heartbeat.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/core.h>

#include "core/log.hpp"
#include "core/quiet_thread.hpp"
#include "liveness/heartbeat_message.hpp"
#include "liveness/identity.hpp"
#include "liveness/liveness_check.hpp"
#include "transport/tcp/transport.hpp"

namespace mpi_bridge {
namespace {

// How long the thread may take to read a message that has begun to arrive.
constexpr Seconds longest_message{2};
// What these two wait for comes at once where all processes get to run; a busy host may take
// longer.
constexpr Seconds longest_enquiry{2};
// How long pending messages are still sent when the heartbeat ends.
constexpr Seconds longest_farewell{2};
constexpr Seconds longest_goodbye{0.2};
// The interval while a thread waits for the end of an enquiry, because a rank may be found to have
// ended.
constexpr Seconds soon{0.02};
// A look that is this late shows that this process was stopped, and perhaps the others with it.
constexpr Seconds suspension{5};

// Whether the transport still refers to the memory of a request that was waited for.
bool is_posted(const Done& outcome) {
    return !outcome && (outcome.error().status == MPIB_ERROR_TIMEOUT ||
                        outcome.error().status == MPIB_ERROR_PEER_LOST);
}

// The messages to each rank have a channel and a sequence of their own, because the transport
// treats the loss of a rank as the end of the calls that it took part in.
Tag tag_to(int rank) {
    const auto number = static_cast<std::uint32_t>(rank);
    return {.channel = number >> Tag::sequence_bits,
            .sequence = Tag::low(number, Tag::sequence_bits)};
}

using MessageKind = HeartbeatMessage::Kind;

class HeartbeatImplementation final : public Heartbeat {
  public:
    explicit HeartbeatImplementation(Options options)
        : options_(std::move(options)),
          identity_(RankIdentity::own()),
          check_(options_.rank, options_.stall) {}
    ~HeartbeatImplementation() override;

    [[nodiscard]] Done listen();
    [[nodiscard]] std::vector<std::byte> address() const override {
        return HeartbeatAddress{identity_, transport_->address()}.bytes();
    }
    void start() override;
    [[nodiscard]] Failure enquire(Failure failure) override;

  private:
    struct Sending {
        int to = 0;
        Request request = 0;
        std::unique_ptr<HeartbeatMessage>
            message;  // the transport reads it until the request is done
    };
    // A rank that enquire() is waiting for.
    struct Enquiry {
        int waiting = 0;  // threads
        bool asked = false;
        bool over = false;
        std::optional<Failure> failure;
    };

    void work();
    void hear();
    void take(int from, const HeartbeatMessage& message);
    void answer(int to);
    void look();
    void report(Clock::time_point now);
    void ask_about(int rank);
    void ask_for_enquiries();
    void end_enquiry(int rank, std::optional<Failure> failure);
    void tell(const HeartbeatMessage& failure);
    void send(int to, const HeartbeatMessage& message);
    void reap_sends();
    void look_for_ended_ranks();
    void say_farewell();
    [[nodiscard]] std::optional<HeartbeatMessage> known_failure();
    [[nodiscard]] const RankIdentity* identity_of(int rank);
    [[nodiscard]] Outcome<HeartbeatAddress> address_of(int rank);

    const Options options_;
    const RankIdentity identity_;
    std::unique_ptr<TcpTransport> transport_;
    std::thread thread_;
    std::atomic<bool> started_{false};
    std::atomic<std::thread::id> own_thread_;  // set by the thread itself, before all else
    std::atomic<bool> ending_{false};
    std::atomic<bool> news_{false};  // the thread should look at what the mutex guards

    std::mutex mutex_;
    std::condition_variable answered_;
    std::map<int, Enquiry> enquiries_;
    std::optional<HeartbeatMessage> failure_;  // to be told to others

    // Used only by the thread:
    LivenessCheck check_;
    std::map<int, RankIdentity> identities_;
    std::list<Sending> sending_;  // includes receives that did not end in time
    bool told_ = false;
    Clock::time_point next_look_;
    Clock::duration suspended_{0};  // how long this process was suspended in total

    std::optional<FailureToken::Watch> watch_;
};

Done HeartbeatImplementation::listen() {
    TcpTransport::Options options;
    options.rank = options_.rank;
    options.size = options_.size;
    options.local_size = options_.local_size;
    options.addresses = options_.addresses;
    options.host_timeout = options_.host_timeout;
    options.longest_sleep = std::chrono::seconds(1);
    options.survives_losses = true;
    options.address_of = [this](int rank) -> Outcome<std::vector<std::byte>> {
        return TRY(address_of(rank)).endpoint;
    };
    transport_ = TRY(TcpTransport::open(std::move(options)));
    return {};
}

void HeartbeatImplementation::start() {
    next_look_ = Clock::now();
    thread_ = start_quiet_thread([this] { work(); });
    started_ = true;
    watch_.emplace(*options_.failure, [this](const Failure&) {
        news_ = true;
        transport_->wake();
    });
}

HeartbeatImplementation::~HeartbeatImplementation() {
    watch_.reset();
    ending_ = true;
    if (thread_.joinable()) {
        transport_->wake();
        thread_.join();
    }
    // There is none where the heartbeat could not listen.
    if (transport_ != nullptr) transport_->close(Deadline::in(longest_goodbye));
}

Failure HeartbeatImplementation::enquire(Failure failure) {
    const int rank = failure.of_rank;
    if (!started_ || std::this_thread::get_id() == own_thread_.load() || rank == options_.rank ||
        rank < 0 || rank >= options_.size) {
        return failure;
    }
    std::unique_lock lock(mutex_);
    Enquiry& enquiry = enquiries_[rank];
    ++enquiry.waiting;
    news_ = true;
    lock.unlock();
    transport_->wake();
    lock.lock();
    answered_.wait_until(lock, Deadline::in(longest_enquiry).when(),
                         [&] { return enquiry.over || failure_.has_value() || ending_; });
    // A failure that was reported to all ranks takes precedence.
    if (failure_ && failure_->rank != options_.rank)
        failure = failure_->failure();
    else if (enquiry.failure)
        failure = *enquiry.failure;
    if (--enquiry.waiting == 0) enquiries_.erase(rank);
    return failure;
}

// Another watcher of the token may have broken the connections before this heartbeat is told, and
// ranks then ask why at once, so the token itself is looked at.
std::optional<HeartbeatMessage> HeartbeatImplementation::known_failure() {
    const std::lock_guard lock(mutex_);
    if (!failure_ && options_.failure->failed())
        failure_ = HeartbeatMessage::of_failure(options_.rank, options_.failure->cause());
    return failure_;
}

void HeartbeatImplementation::work() {
    own_thread_ = std::this_thread::get_id();
    const Tag own = tag_to(options_.rank);
    while (!ending_) {
        if (news_.exchange(false)) {
            if (const auto failure = known_failure()) tell(*failure);
            ask_for_enquiries();
        }
        if (Clock::now() >= next_look_) look();
        const auto arrival = transport_->await_message(
            own.channel, own.sequence, [this] { return ending_ || news_; },
            Deadline::in(Seconds(next_look_ - Clock::now())));
        if (!arrival) return;
        if (*arrival == Transport::Arrival::message) hear();
    }
    say_farewell();
}

void HeartbeatImplementation::hear() {
    const Tag own = tag_to(options_.rank);
    const auto from = transport_->sender_of(own.channel, own.sequence);
    if (!from) return;
    // The list owns the message until the transport has finished with it, because a sender may end
    // in the middle of it.
    Sending& receiving = sending_.emplace_back();
    receiving.to = *from;
    receiving.message = std::make_unique<HeartbeatMessage>();
    const auto request = transport_->post_receive(
        *from, own, std::as_writable_bytes(std::span(receiving.message.get(), 1)));
    if (!request) {
        sending_.pop_back();
        return;
    }
    receiving.request = *request;
    const Done received = transport_->wait(*request, Deadline::in(longest_message));
    if (is_posted(received)) return;
    const HeartbeatMessage message = *receiving.message;
    sending_.pop_back();
    if (received) take(*from, message);
}

void HeartbeatImplementation::take(int from, const HeartbeatMessage& message) {
    if (!message.known()) return;
    const auto now = Clock::now() - suspended_;
    switch (message.kind) {
        case MessageKind::question:
            if (message.for_engine && options_.engine_is_awaited) options_.engine_is_awaited();
            return answer(from);
        case MessageKind::answer:
            check_.answered(from, message.waits_for, message.state, now);
            return end_enquiry(
                from, message.status == MPIB_OK ? std::nullopt : std::optional(message.failure()));
        case MessageKind::question_about: {
            HeartbeatMessage reply{.kind = MessageKind::answer_about, .rank = message.rank};
            if (const RankIdentity* identity = identity_of(message.rank); identity != nullptr)
                reply.state = state_of(*identity);
            return send(from, reply);
        }
        case MessageKind::answer_about:
            return check_.told_about(message.rank, message.state, now);
        case MessageKind::failure:
            break;
    }
    if (known_failure()) return;
    {
        const std::lock_guard lock(mutex_);
        failure_ = message;
    }
    answered_.notify_all();
    tell(message);
    options_.failure->fail(message.failure());
}

void HeartbeatImplementation::answer(int to) {
    HeartbeatMessage reply = known_failure().value_or(HeartbeatMessage());
    reply.kind = MessageKind::answer;
    reply.state = state_of(identity_);
    const auto blocked = options_.waits->now();
    if (!blocked.empty()) reply.waits_for = blocked.front().rank;
    send(to, reply);
}

void HeartbeatImplementation::look() {
    const auto late = Seconds(Clock::now() - next_look_);
    if (late >= suspension) suspended_ += Clock::now() - next_look_;
    {
        const std::lock_guard lock(mutex_);
        next_look_ = after(Clock::now(), enquiries_.empty() ? check_.interval() : soon);
    }
    reap_sends();
    look_for_ended_ranks();
    const auto now = Clock::now() - suspended_;
    const auto orders = check_.look(options_.waits->now(), now);
    for (const int rank : orders.ask)
        send(rank, {.kind = MessageKind::question, .for_engine = check_.engine_waits_for(rank)});
    for (const int rank : orders.ask_about)
        ask_about(rank);
    if (orders.report) report(now);
    if (options_.failure->failed()) return;
    for (const int rank : orders.gone) {
        const RankIdentity* identity = identity_of(rank);
        options_.failure->fail(
            {.status = MPIB_ERROR_PEER_LOST,
             .text = fmt::format("rank {} has ended (host {}, process {}) while this rank waits "
                                 "for it; look for its first error",
                                 rank, identity == nullptr ? "?" : identity->host,
                                 identity == nullptr ? 0 : identity->process),
             .of_rank = rank});
        return;
    }
    if (!orders.give_up) return;
    const auto [rank, waited] = *orders.give_up;
    options_.failure->fail(
        {.status = MPIB_ERROR_TIMEOUT,
         .text = fmt::format("given up after {:.0f} s of waiting for rank {}, as "
                             "MPI_BRIDGE_STALL_SHUTDOWN_SECONDS says",
                             waited.count(), rank)});
}

void HeartbeatImplementation::report(Clock::time_point now) {
    auto findings = check_.findings(now);
    for (Finding& found : findings) {
        if (const RankIdentity* identity = identity_of(found.rank); identity != nullptr)
            found.identity = *identity;
    }
    if (!findings.empty()) options_.report(findings_text(options_.rank, findings));
}

// Finds out what the kernel says about a silent rank, here or through another rank of its host.
void HeartbeatImplementation::ask_about(int rank) {
    const auto& hosts = options_.host_of_rank;
    const int host = hosts[static_cast<std::size_t>(rank)];
    if (host == hosts[static_cast<std::size_t>(options_.rank)]) {
        if (const RankIdentity* identity = identity_of(rank); identity != nullptr)
            check_.told_about(rank, state_of(*identity), Clock::now() - suspended_);
        return;
    }
    for (int other = 0; other < options_.size; ++other) {
        if (other == rank || hosts[static_cast<std::size_t>(other)] != host) continue;
        // This holds until the other rank answers.
        check_.neighbour_is_silent(rank, other);
        return send(other, {.kind = MessageKind::question_about, .rank = rank});
    }
}

void HeartbeatImplementation::ask_for_enquiries() {
    std::vector<int> ranks;
    {
        const std::lock_guard lock(mutex_);
        for (auto& [rank, enquiry] : enquiries_) {
            if (!std::exchange(enquiry.asked, true)) ranks.push_back(rank);
        }
    }
    for (const int rank : ranks)
        send(rank, {.kind = MessageKind::question});
    // The next look must come soon, because it finds out whether a rank has ended.
    if (!ranks.empty()) next_look_ = Clock::now();
}

void HeartbeatImplementation::end_enquiry(int rank, std::optional<Failure> failure) {
    {
        const std::lock_guard lock(mutex_);
        const auto found = enquiries_.find(rank);
        if (found == enquiries_.end()) return;
        found->second.over = true;
        if (failure) found->second.failure = std::move(failure);
    }
    answered_.notify_all();
}

// Tells the neighbours, once.
void HeartbeatImplementation::tell(const HeartbeatMessage& failure) {
    if (std::exchange(told_, true)) return;
    for (const int rank : failure_neighbours(options_.rank, options_.size))
        send(rank, failure);
}

void HeartbeatImplementation::send(int to, const HeartbeatMessage& message) {
    if (transport_->is_gone(to)) {
        check_.gone(to);
        return end_enquiry(to, std::nullopt);
    }
    Sending sending{.to = to, .message = std::make_unique<HeartbeatMessage>(message)};
    const auto request =
        transport_->post_send(to, tag_to(to), std::as_bytes(std::span(sending.message.get(), 1)));
    if (!request) {
        log(LogLevel::debug,
            fmt::format("rank {} cannot be asked how it is: {}", to, request.error().text));
        return end_enquiry(to, std::nullopt);
    }
    sending.request = *request;
    sending_.push_back(std::move(sending));
}

// Messages to a rank that has ended stay in the list, because the transport still refers to them.
void HeartbeatImplementation::reap_sends() {
    for (auto each = sending_.begin(); each != sending_.end();) {
        const bool done = !transport_->is_gone(each->to) &&
                          !is_posted(transport_->wait(each->request, Deadline::in(Seconds(0))));
        each = done ? sending_.erase(each) : std::next(each);
    }
}

// This includes ranks that have received a question and ended before they answered it.
void HeartbeatImplementation::look_for_ended_ranks() {
    std::vector<int> ranks = check_.unanswered();
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [rank, enquiry] : enquiries_)
            ranks.push_back(rank);
    }
    for (const int rank : ranks) {
        if (!transport_->is_gone(rank)) continue;
        check_.gone(rank);
        end_enquiry(rank, std::nullopt);
    }
}

void HeartbeatImplementation::say_farewell() {
    const auto failure = known_failure();
    if (!failure) return;
    tell(*failure);
    const Deadline deadline = Deadline::in(longest_farewell);
    const auto waits = [this](const Sending& each) { return !transport_->is_gone(each.to); };
    while (!deadline.passed()) {
        reap_sends();
        if (std::none_of(sending_.begin(), sending_.end(), waits)) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        (void)transport_->progress();
    }
}

Outcome<HeartbeatAddress> HeartbeatImplementation::address_of(int rank) {
    const auto bytes = TRY(options_.address_of(rank));
    auto address = HeartbeatAddress::parse(bytes);
    if (address) identities_[rank] = address->identity;
    return address;
}

const RankIdentity* HeartbeatImplementation::identity_of(int rank) {
    if (rank < 0 || rank >= options_.size) return nullptr;
    if (!identities_.contains(rank) && !address_of(rank)) return nullptr;
    return &identities_[rank];
}

}  // namespace

Outcome<std::unique_ptr<Heartbeat>> Heartbeat::open(Options options) {
    auto heartbeat = std::make_unique<HeartbeatImplementation>(std::move(options));
    TRY(heartbeat->listen());
    return heartbeat;
}

}  // namespace mpi_bridge

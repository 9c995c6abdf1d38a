// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/transport.hpp"

#include <atomic>
#include <deque>
#include <utility>

#include "transport/tcp/traffic.hpp"
#include "transport/wait/spin_policy.hpp"
#include "transport/wait/watch.hpp"

namespace mpi_bridge {
namespace {

class TcpTransportImplementation final : public TcpTransport {
  public:
    explicit TcpTransportImplementation(Options options)
        : options_(std::move(options)),
          traffic_(options_),
          watch_({[this] { return traffic_.move(); }, [this] { return traffic_.arm(); }, -1,
                  [this](int milliseconds) { traffic_.await_event(milliseconds); },
                  options_.longest_sleep},
                 may_be_crowded(options_.local_size)) {}

    [[nodiscard]] Done start() { return traffic_.start(watch_.interrupt_descriptor()); }

    [[nodiscard]] int rank() const override { return options_.rank; }
    [[nodiscard]] int size() const override { return options_.size; }
    [[nodiscard]] std::vector<std::byte> address() const override {
        return traffic_.address().bytes();
    }
    [[nodiscard]] std::optional<int> sender_of(std::uint32_t channel,
                                               std::uint32_t sequence) override {
        const std::lock_guard lock(watch_.mutex());
        if (closed_) return std::nullopt;
        return traffic_.keeps_message_of(TcpKey::call(TcpKey::of({channel, sequence, 0, 0})),
                                         TcpLinks::kind_for(channel));
    }
    [[nodiscard]] bool is_gone(int rank) override {
        const std::lock_guard lock(watch_.mutex());
        return closed_ || traffic_.is_gone(rank);
    }

    [[nodiscard]] Outcome<Request> post_send(int to, Tag tag,
                                             std::span<const std::byte> data) override {
        return post_send(to, tag, data, false);
    }
    [[nodiscard]] Outcome<Request> post_send_ahead(int to, Tag tag,
                                                   std::span<const std::byte> data) override {
        return post_send(to, tag, data, true);
    }
    [[nodiscard]] Outcome<Request> post_receive(int from, Tag tag,
                                                std::span<std::byte> data) override;
    bool progress() override;
    [[nodiscard]] Done wait(Request request, Deadline deadline) override;
    [[nodiscard]] Outcome<Arrival> await_message(std::uint32_t channel, std::uint32_t sequence,
                                                 const std::function<bool()>& stop,
                                                 Deadline deadline) override;
    void set_crowded(bool crowded) override {
        const std::lock_guard lock(watch_.mutex());
        watch_.set_crowded(crowded);
    }
    void wake() override;
    void abandon() override;
    void close(Deadline deadline) override;

  private:
    [[nodiscard]] Outcome<Request> post_send(int to, Tag tag, std::span<const std::byte> data,
                                             bool another_follows);
    [[nodiscard]] int link_of(int peer, Tag tag) const {
        return traffic_.links().to(peer, TcpLinks::kind_for(tag.channel));
    }
    [[nodiscard]] Request new_operation(int peer, Tag tag, bool receives);
    void end_operations();
    [[nodiscard]] tl::unexpected<Failure> loss_on(int link) const {
        const int rank = traffic_.links().rank(link);
        return lost(rank, "rank " + std::to_string(rank) + " (" + traffic_.peer(link).end() + ")");
    }
    [[nodiscard]] Done check_alive(const TcpOperation& operation) const;
    [[nodiscard]] Done result(const TcpOperation& operation) const;

    Options options_;
    TcpTraffic traffic_;
    bool closed_ = false;
    // A deque, because an operation must keep its address while others are added.
    std::deque<TcpOperation> operations_;
    std::vector<Request> unused_;
    std::atomic<int> awaiting_{0};  // threads in await_message()
    std::atomic<unsigned> wakes_{0};
    Watch watch_;  // its mutex guards all of the above
};

Request TcpTransportImplementation::new_operation(int peer, Tag tag, bool receives) {
    Request id = 0;
    if (unused_.empty()) {
        id = static_cast<Request>(operations_.size());
        operations_.emplace_back();
    } else {
        id = unused_.back();
        unused_.pop_back();
    }
    TcpOperation& operation = operations_[id];
    operation = TcpOperation{};
    operation.posted = true;
    operation.receives = receives;
    operation.peer = peer;
    operation.link = link_of(peer, tag);
    operation.tag = tag;
    operation.key = TcpKey::of(tag);
    return id;
}

Outcome<Request> TcpTransportImplementation::post_send(int to, Tag tag,
                                                       std::span<const std::byte> data,
                                                       bool another_follows) {
    const std::lock_guard lock(watch_.mutex());
    auto peer = TRY(traffic_.talk_to(link_of(to, tag)));
    const Request id = new_operation(to, tag, false);
    TcpOperation& operation = operations_[id];
    peer->send(operation, tag, data, another_follows);
    if (peer->sends()) traffic_.activate(operation.link);
    return id;
}

Outcome<Request> TcpTransportImplementation::post_receive(int from, Tag tag,
                                                          std::span<std::byte> data) {
    const std::lock_guard lock(watch_.mutex());
    auto peer = TRY(traffic_.talk_to(link_of(from, tag)));
    const Request id = new_operation(from, tag, true);
    TcpOperation& operation = operations_[id];
    operation.memory = data.data();
    operation.bytes = data.size();
    peer->inbox().expect(operation);
    if (!operation.done) traffic_.activate(operation.link);
    return id;
}

Done TcpTransportImplementation::check_alive(const TcpOperation& operation) const {
    const auto& peer = traffic_.peer(operation.link);
    if (peer.presence() != TcpPeer::Presence::there && !peer.readable()) {
        return loss_on(operation.link);
    }
    // Other ranks may wait for what a lost rank should have passed on in this call.
    for (const int link : traffic_.lost()) {
        if (traffic_.peer(link).participation().in_call_of(operation.tag)) return loss_on(link);
    }
    return {};
}

Done TcpTransportImplementation::result(const TcpOperation& operation) const {
    if (closed_) return fail(MPIB_ERROR_INTERNAL, "the transport was closed meanwhile");
    if (!operation.receives) return {};
    if (operation.received.agreement != operation.tag.agreement) {
        return fail(MPIB_ERROR_MISMATCH,
                    "it called another collective, or this one with other arguments");
    }
    if (operation.received.bytes != operation.bytes) {
        return fail(MPIB_ERROR_MISMATCH, "it sent " + std::to_string(operation.received.bytes) +
                                             " bytes where " + std::to_string(operation.bytes) +
                                             " were expected");
    }
    return {};
}

Done TcpTransportImplementation::wait(Request request, Deadline deadline) {
    std::unique_lock lock(watch_.mutex());
    TcpOperation& operation = operations_[request];
    Done alive;
    if (!operation.done) {
        const auto happened = [&] {
            if (operation.done) return true;
            alive = check_alive(operation);
            return !alive;
        };
        const Waits::Waiting waiting(options_.waits, operation.peer, operation.tag.lane());
        if (!watch_.wait(lock, happened, deadline, Tag::wait_mode(operation.tag.channel))) {
            return fail(MPIB_ERROR_TIMEOUT, "nothing happened");
        }
    }
    if (!alive) return alive;
    Done outcome = result(operation);
    operation.posted = false;
    unused_.push_back(request);
    return outcome;
}

Outcome<Transport::Arrival> TcpTransportImplementation::await_message(
    std::uint32_t channel, std::uint32_t sequence, const std::function<bool()>& stop,
    Deadline deadline) {
    const std::uint32_t call = TcpKey::call(TcpKey::of({channel, sequence, 0, 0}));
    ++awaiting_;
    if (stop()) {
        --awaiting_;
        return Arrival::stopped;
    }
    const auto kind = TcpLinks::kind_for(channel);
    std::unique_lock lock(watch_.mutex());
    traffic_.want_everything(kind);
    Arrival arrival = Arrival::late;
    unsigned seen = wakes_ - 1;  // asks once more: a wake() may have come before the lock
    const auto happened = [&] {
        if (closed_) return true;
        if (traffic_.keeps_message_of(call, kind)) {
            arrival = Arrival::message;
        } else if (!options_.survives_losses && !traffic_.lost().empty()) {
            return true;
        } else if (const unsigned now = wakes_; now != seen) {
            seen = now;
            if (stop()) arrival = Arrival::stopped;
        }
        return arrival != Arrival::late;
    };
    (void)watch_.wait(lock, happened, deadline, Tag::wait_mode(channel));
    traffic_.want_no_more(kind);
    --awaiting_;
    if (closed_) return fail(MPIB_ERROR_INTERNAL, "the transport is closed");
    if (arrival == Arrival::late && !options_.survives_losses && !traffic_.lost().empty())
        return loss_on(traffic_.lost().front());
    return arrival;
}

void TcpTransportImplementation::wake() {
    ++wakes_;
    if (awaiting_ != 0) watch_.rouse_all();
}

bool TcpTransportImplementation::progress() {
    const std::lock_guard lock(watch_.mutex());
    return !closed_ && watch_.look();
}

void TcpTransportImplementation::abandon() {
    {
        const std::lock_guard lock(watch_.mutex());
        if (closed_) return;
        traffic_.abandon();
        end_operations();
    }
    watch_.rouse_all();
}

void TcpTransportImplementation::close(Deadline deadline) {
    {
        const std::lock_guard lock(watch_.mutex());
        if (closed_) return;
        traffic_.close([this] { return watch_.look(); }, deadline);
        end_operations();
    }
    watch_.rouse_all();
}

void TcpTransportImplementation::end_operations() {
    closed_ = true;
    for (TcpOperation& operation : operations_)
        operation.done = true;
}

}  // namespace

Outcome<std::unique_ptr<TcpTransport>> TcpTransport::open(Options options) {
    auto transport = std::make_unique<TcpTransportImplementation>(std::move(options));
    TRY(transport->start());
    return transport;
}

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/transport.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <vector>

#include <ucp/api/ucp.h>

#include "transport/ucx/network.hpp"
#include "transport/ucx/peers.hpp"
#include "transport/wait/spin_policy.hpp"
#include "transport/wait/watch.hpp"

namespace mpi_bridge {
namespace {

// A broken connection fails receives only after this long; see UcxPeers::lost_since().
constexpr std::chrono::milliseconds grace{500};
// Other threads wait for the lock meanwhile, in order to return with the failure.
constexpr Seconds longest_abandon{1};

// From the lowest bit: agreement, step, sequence, channel, sender.
constexpr unsigned step_shift = Tag::agreement_bits;
constexpr unsigned sequence_shift = step_shift + Tag::step_bits;
constexpr unsigned channel_shift = sequence_shift + Tag::sequence_bits;
constexpr unsigned sender_shift = channel_shift + Tag::channel_bits;
constexpr ucp_tag_t agreement_mask = (ucp_tag_t{1} << Tag::agreement_bits) - 1;
// Matches channel and sequence, whatever the sender and the step.
constexpr ucp_tag_t call_mask =
    ((ucp_tag_t{1} << sender_shift) - 1) & ~((ucp_tag_t{1} << sequence_shift) - 1);
constexpr int most_ranks = 1 << (64 - sender_shift);

ucp_tag_t encode_tag(int sender, Tag tag) {
    return static_cast<ucp_tag_t>(sender) << sender_shift |
           static_cast<ucp_tag_t>(Tag::low(tag.channel, Tag::channel_bits)) << channel_shift |
           static_cast<ucp_tag_t>(Tag::low(tag.sequence, Tag::sequence_bits)) << sequence_shift |
           static_cast<ucp_tag_t>(Tag::low(tag.step, Tag::step_bits)) << step_shift |
           static_cast<ucp_tag_t>(Tag::low(tag.agreement, Tag::agreement_bits));
}

// The tag of the last message of a rank that leaves, which distinguishes it from one that dies. It
// cannot be the tag of a collective: no algorithm has so many steps in the call of that number in
// the last process set.
constexpr Tag goodbye{~0U, ~0U, ~0U, ~0U};

struct Operation {
    void* request = nullptr;  // UCX's handle while the operation is under way
    bool posted = false;
    bool done = false;
    bool receives = false;
    int peer = 0;
    Tag tag;
    ucs_status_t status = UCS_OK;
    std::size_t expected_bytes = 0;
    ucp_tag_t expected_tag = 0;
    ucp_tag_recv_info_t received{};
};

class UcxTransportImplementation final : public UcxTransport {
  public:
    explicit UcxTransportImplementation(const Options& options)
        : rank_(options.rank),
          size_(options.size),
          crowded_(may_be_crowded(options.local_size)),
          waits_(options.waits) {}
    UcxTransportImplementation(const UcxTransportImplementation&) = delete;
    UcxTransportImplementation& operator=(const UcxTransportImplementation&) = delete;
    ~UcxTransportImplementation() override { destroy(); }

    [[nodiscard]] Done start(Options options);

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::vector<std::byte> address() const override { return address_; }

    [[nodiscard]] Outcome<Request> post_send(int to, Tag tag,
                                             std::span<const std::byte> data) override;
    [[nodiscard]] Outcome<Request> post_receive(int from, Tag tag,
                                                std::span<std::byte> data) override;
    bool progress() override;
    [[nodiscard]] Done wait(Request request, Deadline deadline) override;
    [[nodiscard]] Outcome<Arrival> await_message(std::uint32_t channel, std::uint32_t sequence,
                                                 const std::function<bool()>& stop,
                                                 Deadline deadline) override;
    [[nodiscard]] std::optional<int> sender_of(std::uint32_t channel,
                                               std::uint32_t sequence) override;
    [[nodiscard]] bool is_gone(int rank) override;
    void set_crowded(bool crowded) override {
        const std::lock_guard lock(watch_->mutex());
        watch_->set_crowded(crowded);
    }
    void wake() override;
    void abandon() override;
    void close(Deadline deadline) override;

  private:
    [[nodiscard]] Outcome<ucp_ep_h> endpoint(int peer);
    [[nodiscard]] Request new_operation(int peer, Tag tag, bool receives);
    [[nodiscard]] Request posted(Request id, void* request);
    [[nodiscard]] bool left(int peer) const;
    [[nodiscard]] Done check_alive(const Operation& operation) const;
    [[nodiscard]] Done check_all_alive() const;
    [[nodiscard]] Done result(const Operation& operation) const;
    void cancel_receives();
    void end_operations(Deadline deadline);
    void destroy();

    [[nodiscard]] static bool finished(Operation& operation);

    int rank_;
    int size_;
    bool crowded_;
    Waits* waits_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    std::vector<std::byte> address_;
    std::unique_ptr<UcxPeers> peers_;
    // A deque, because an operation must keep its address while others are added.
    std::deque<Operation> operations_;
    std::vector<Request> unused_;
    std::unique_ptr<Watch> watch_;  // its mutex guards all of the above
    std::atomic<int> awaiting_{0};  // threads in await_message()
    std::atomic<unsigned> wakes_{0};
};

tl::unexpected<Failure> closed_meanwhile() {
    return fail(MPIB_ERROR_INTERNAL, "the transport was closed meanwhile");
}

tl::unexpected<Failure> ucx_failure(const char* call, ucs_status_t status) {
    return fail(MPIB_ERROR_INTERNAL,
                std::string(call) + " failed: " + ucs_status_string(status) +
                    "; check UCX_TLS and UCX_NET_DEVICES, UCX_LOG_LEVEL=info tells more");
}

Outcome<ucp_context_h> make_context(int size, int local_size, bool named) {
    ucp_config_t* config = nullptr;
    auto status = ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) return ucx_failure("ucp_config_read", status);
    Done configured = configure_network(config, {local_size < size, named});
    if (!configured) ucp_config_release(config);
    TRY(std::move(configured));
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                        UCP_PARAM_FIELD_ESTIMATED_NUM_PPN | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    params.estimated_num_eps = static_cast<std::size_t>(size);
    params.estimated_num_ppn = static_cast<std::size_t>(local_size);
    params.name = "mpi_bridge";
    ucp_context_h context = nullptr;
    status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    if (status != UCS_OK) return ucx_failure("ucp_init", status);
    return context;
}

// Receives and drops every message that is there, because UCX warns about each one that was not
// received. It does so on stdout, where the end of its buffer may fall into the middle of a line of
// the program. Goodbyes are always left over, and after a failure so are messages of calls that
// will not be made any more. Some of those have come in part only: their receives never end. UCX
// refers to what is returned until the worker is destroyed; from its own pool it would warn about
// them as well.
std::vector<std::vector<std::byte>> drop_messages(ucp_context_h context, ucp_worker_h worker) {
    ucp_context_attr_t attributes{};
    attributes.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
    std::vector<std::vector<std::byte>> receives;
    if (ucp_context_query(context, &attributes) != UCS_OK) return receives;
    constexpr ucp_tag_t any = 0;
    ucp_tag_recv_info_t info{};
    while (auto* message = ucp_tag_probe_nb(worker, 0, any, 1, &info)) {
        // A request lies before the address that stands for it.
        auto& request = receives.emplace_back(attributes.request_size);
        ucp_request_param_t params{};
        params.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST;
        params.request = request.data() + request.size();
        if (!UCS_PTR_IS_PTR(ucp_tag_msg_recv_nbx(worker, nullptr, 0, message, &params))) {
            receives.pop_back();
        }
    }
    return receives;
}

Done UcxTransportImplementation::start(Options options) {
    if (size_ > most_ranks) {
        return fail(MPIB_ERROR_INTERNAL,
                    "more than " + std::to_string(most_ranks) + " ranks are not supported");
    }
    auto context = TRY(make_context(size_, options.local_size, options.named));
    context_ = context;

    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    auto status = ucp_worker_create(context_, &params, &worker_);
    if (status != UCS_OK) return ucx_failure("ucp_worker_create", status);
    int descriptor = -1;
    status = ucp_worker_get_efd(worker_, &descriptor);
    if (status != UCS_OK) return ucx_failure("ucp_worker_get_efd", status);
    const auto progress = [this] {
        return worker_ != nullptr && ucp_worker_progress(worker_) != 0;
    };
    const auto arm = [this] { return worker_ != nullptr && ucp_worker_arm(worker_) == UCS_OK; };
    watch_ = std::make_unique<Watch>(Watch::Source{progress, arm, descriptor, {}}, crowded_);

    ucp_address_t* address = nullptr;
    std::size_t length = 0;
    status = ucp_worker_get_address(worker_, &address, &length);
    if (status != UCS_OK) return ucx_failure("ucp_worker_get_address", status);
    address_.resize(length);
    std::memcpy(address_.data(), address, length);
    ucp_worker_release_address(worker_, address);

    peers_ = std::make_unique<UcxPeers>(worker_, std::move(options.address_of));
    return {};
}

Outcome<ucp_ep_h> UcxTransportImplementation::endpoint(int peer) {
    if (peers_ == nullptr) return fail(MPIB_ERROR_INTERNAL, "the transport is closed");
    return peers_->endpoint(peer);
}

Request UcxTransportImplementation::new_operation(int peer, Tag tag, bool receives) {
    Request id = 0;
    if (unused_.empty()) {
        id = static_cast<Request>(operations_.size());
        operations_.emplace_back();
    } else {
        id = unused_.back();
        unused_.pop_back();
    }
    operations_[id] = Operation{};
    operations_[id].posted = true;
    operations_[id].receives = receives;
    operations_[id].peer = peer;
    operations_[id].tag = tag;
    return id;
}

Request UcxTransportImplementation::posted(Request id, void* request) {
    Operation& operation = operations_[id];
    if (UCS_PTR_IS_PTR(request)) {
        operation.request = request;
    } else {
        operation.done = true;
        operation.status = UCS_PTR_STATUS(request);
    }
    return id;
}

bool UcxTransportImplementation::finished(Operation& operation) {
    if (operation.done) return true;
    const auto status = operation.receives
                            ? ucp_tag_recv_request_test(operation.request, &operation.received)
                            : ucp_request_check_status(operation.request);
    if (status == UCS_INPROGRESS) return false;
    ucp_request_free(operation.request);
    operation.request = nullptr;
    operation.status = status;
    operation.done = true;
    return true;
}

Outcome<Request> UcxTransportImplementation::post_send(int to, Tag tag,
                                                       std::span<const std::byte> data) {
    const std::lock_guard lock(watch_->mutex());
    auto peer = TRY(endpoint(to));
    const Request id = new_operation(to, tag, false);
    peers_->note_sent(to, tag);
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    return posted(
        id, ucp_tag_send_nbx(peer, data.data(), data.size(), encode_tag(rank_, tag), &params));
}

Outcome<Request> UcxTransportImplementation::post_receive(int from, Tag tag,
                                                          std::span<std::byte> data) {
    const std::lock_guard lock(watch_->mutex());
    // A receive needs no endpoint, but without one nothing would report that the sender is gone.
    TRY(endpoint(from));
    const Request id = new_operation(from, tag, true);
    Operation& operation = operations_[id];
    operation.expected_bytes = data.size();
    operation.expected_tag = encode_tag(from, tag);
    ucp_request_param_t params{};
    // Always a request, because UCX 1.13 does not tell tag and length of a message that was there
    // already when the receive is complete at once.
    params.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    return posted(id, ucp_tag_recv_nbx(worker_, data.data(), data.size(), operation.expected_tag,
                                       ~agreement_mask, &params));
}

Done UcxTransportImplementation::check_alive(const Operation& operation) const {
    if (peers_ == nullptr) return closed_meanwhile();
    for (const int rank : peers_->lost()) {
        if (Clock::now() < *peers_->lost_since(rank) + grace) continue;
        if (rank == operation.peer || (peers_->took_part(rank, operation.tag) && !left(rank))) {
            return lost(rank, "rank " + std::to_string(rank) + " (the connection broke)");
        }
    }
    return {};
}

Done UcxTransportImplementation::check_all_alive() const {
    for (const int rank : peers_->lost()) {
        if (Clock::now() < *peers_->lost_since(rank) + grace || left(rank)) continue;
        return lost(rank, "rank " + std::to_string(rank) + " (the connection broke)");
    }
    return {};
}

bool UcxTransportImplementation::left(int peer) const {
    ucp_tag_recv_info_t info{};
    return ucp_tag_probe_nb(worker_, encode_tag(peer, goodbye), ~ucp_tag_t{0}, 0, &info) != nullptr;
}

Done UcxTransportImplementation::result(const Operation& operation) const {
    // Another thread has called abandon() or close(), so the peers are gone, too.
    if (peers_ == nullptr) return closed_meanwhile();
    if (operation.status == UCS_ERR_MESSAGE_TRUNCATED) {
        return fail(MPIB_ERROR_MISMATCH, "it sent more than the " +
                                             std::to_string(operation.expected_bytes) +
                                             " bytes expected");
    }
    if (operation.status != UCS_OK) {
        const std::string why = std::string("UCX says: ") + ucs_status_string(operation.status);
        if (!peers_->lost_since(operation.peer)) return fail(MPIB_ERROR_INTERNAL, why);
        return lost(operation.peer, "rank " + std::to_string(operation.peer) + " (" + why + ")");
    }
    if (!operation.receives) return {};
    if (operation.received.sender_tag != operation.expected_tag) {
        return fail(MPIB_ERROR_MISMATCH,
                    "it called another collective, or this one with other arguments");
    }
    if (operation.received.length != operation.expected_bytes) {
        return fail(MPIB_ERROR_MISMATCH,
                    "it sent " + std::to_string(operation.received.length) + " bytes where " +
                        std::to_string(operation.expected_bytes) + " were expected");
    }
    return {};
}

Done UcxTransportImplementation::wait(Request request, Deadline deadline) {
    std::unique_lock lock(watch_->mutex());
    Operation& operation = operations_[request];
    Done alive;
    const auto happened = [&] {
        if (finished(operation)) return true;
        alive = check_alive(operation);
        return !alive;
    };
    const Waits::Waiting waiting(waits_, operation.peer, operation.tag.lane());
    if (!watch_->wait(lock, happened, deadline, Tag::wait_mode(operation.tag.channel))) {
        return fail(MPIB_ERROR_TIMEOUT, "nothing happened");
    }
    if (!alive) return alive;
    Done outcome = result(operation);
    if (!outcome && still_posted(outcome.error())) return outcome;
    operation.posted = false;
    unused_.push_back(request);
    return outcome;
}

Outcome<Transport::Arrival> UcxTransportImplementation::await_message(
    std::uint32_t channel, std::uint32_t sequence, const std::function<bool()>& stop,
    Deadline deadline) {
    const ucp_tag_t call = encode_tag(0, {channel, sequence, 0, 0}) & call_mask;
    ++awaiting_;
    if (stop()) {
        --awaiting_;
        return Arrival::stopped;
    }
    std::unique_lock lock(watch_->mutex());
    Arrival arrival = Arrival::late;
    unsigned seen = wakes_ - 1;  // asks once more: a wake() may have come before the lock
    Done alive;
    const auto happened = [&] {
        ucp_tag_recv_info_t info{};
        if (worker_ == nullptr) return true;
        if (ucp_tag_probe_nb(worker_, call, call_mask, 0, &info) != nullptr) {
            arrival = Arrival::message;
        } else if (alive = check_all_alive(); !alive) {
            return true;
        } else if (const unsigned now = wakes_; now != seen) {
            seen = now;
            if (stop()) arrival = Arrival::stopped;
        }
        return arrival != Arrival::late;
    };
    (void)watch_->wait(lock, happened, deadline, Tag::wait_mode(channel));
    --awaiting_;
    if (worker_ == nullptr) return fail(MPIB_ERROR_INTERNAL, "the transport is closed");
    TRY(std::move(alive));
    return arrival;
}

std::optional<int> UcxTransportImplementation::sender_of(std::uint32_t channel,
                                                         std::uint32_t sequence) {
    const std::lock_guard lock(watch_->mutex());
    ucp_tag_recv_info_t info{};
    const ucp_tag_t call = encode_tag(0, {channel, sequence, 0, 0}) & call_mask;
    if (worker_ == nullptr || ucp_tag_probe_nb(worker_, call, call_mask, 0, &info) == nullptr)
        return std::nullopt;
    return static_cast<int>(info.sender_tag >> sender_shift);
}

bool UcxTransportImplementation::is_gone(int rank) {
    const std::lock_guard lock(watch_->mutex());
    if (worker_ == nullptr || left(rank)) return true;
    const auto& lost = peers_->lost();
    return std::find(lost.begin(), lost.end(), rank) != lost.end() &&
           Clock::now() >= *peers_->lost_since(rank) + grace;
}

void UcxTransportImplementation::wake() {
    ++wakes_;
    if (awaiting_ != 0) watch_->rouse_all();
}

bool UcxTransportImplementation::progress() {
    const std::lock_guard lock(watch_->mutex());
    return watch_->look();
}

void UcxTransportImplementation::abandon() {
    {
        const std::lock_guard lock(watch_->mutex());
        if (worker_ == nullptr) return;
        const auto deadline = Deadline::in(longest_abandon);
        cancel_receives();
        peers_->close(true, deadline);
        end_operations(deadline);
        destroy();
    }
    watch_->rouse_all();
}

void UcxTransportImplementation::close(Deadline deadline) {
    {
        const std::lock_guard lock(watch_->mutex());
        if (worker_ == nullptr) return;
        peers_->say_to_all(encode_tag(rank_, goodbye), deadline);
        peers_->close(false, deadline);
        cancel_receives();
        end_operations(Deadline::in(longest_abandon));
        destroy();
    }
    watch_->rouse_all();
}

void UcxTransportImplementation::cancel_receives() {
    for (Operation& operation : operations_) {
        if (operation.posted && operation.receives && !finished(operation)) {
            ucp_request_cancel(worker_, operation.request);
        }
    }
}

// After this no waiting thread accesses the worker or a request of UCX.
void UcxTransportImplementation::end_operations(Deadline deadline) {
    const auto busy = [this] {
        bool any = false;
        for (Operation& operation : operations_) {
            if (operation.posted && !finished(operation)) any = true;
        }
        return any;
    };
    while (busy() && !deadline.passed())
        ucp_worker_progress(worker_);
    // Destroying the worker also ends any operation that could not be cancelled.
    for (Operation& operation : operations_) {
        if (!operation.posted || finished(operation)) continue;
        operation.done = true;
        operation.status = UCS_ERR_CANCELED;
    }
}

void UcxTransportImplementation::destroy() {
    if (worker_ != nullptr) {
        const auto receives = drop_messages(context_, worker_);
        ucp_worker_destroy(worker_);
    }
    if (context_ != nullptr) ucp_cleanup(context_);
    worker_ = nullptr;
    context_ = nullptr;
    peers_.reset();
}

}  // namespace

Outcome<std::unique_ptr<UcxTransport>> UcxTransport::open(Options options) {
    auto transport = std::make_unique<UcxTransportImplementation>(options);
    TRY(transport->start(std::move(options)));
    return transport;
}

std::string ucx_version() {
    return ucp_get_version_string();
}

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#include "simulation.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/core.h>

#include "fiber.hpp"

namespace mpi_bridge_scale {
namespace {

using mpi_bridge::Conversation;
using mpi_bridge::Deadline;
using mpi_bridge::Done;
using mpi_bridge::fail;
using mpi_bridge::Outcome;
using mpi_bridge::Reduction;
using mpi_bridge::Request;
using mpi_bridge::Scratch;
using mpi_bridge::Tag;

struct Message {
    Network::Route route;
    Tag tag;
    const std::byte* data = nullptr;
    Request sender_request = 0;
    int depth = 0;  // messages on the longest chain that ends with this one
};

struct Operation {
    bool receives = false;
    bool done = false;
    Time posted = 0;
    Time completed = 0;
    int depth = 0;
    // Of a receive.
    int from = 0;
    Tag tag;
    std::span<std::byte> memory;
    std::optional<std::string> mismatch;
};

bool match(const Operation& receive, const Message& message) {
    return receive.from == message.route.from && receive.tag.channel == message.tag.channel &&
           receive.tag.sequence == message.tag.sequence && receive.tag.step == message.tag.step;
}

class World;

// The transport of one rank, and the rank's state.
class Rank final : public mpi_bridge::Transport {
  public:
    Rank(World& world, int rank)
        : world_(world), rank_(rank), connected_(static_cast<std::size_t>(size())) {}

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override;
    [[nodiscard]] Outcome<Request> post_send(int to, Tag tag,
                                             std::span<const std::byte> data) override;
    [[nodiscard]] Outcome<Request> post_receive(int from, Tag tag,
                                                std::span<std::byte> data) override;
    [[nodiscard]] Done wait(Request request, Deadline deadline) override;
    bool progress() override { return false; }
    [[nodiscard]] Outcome<Arrival> await_message(std::uint32_t /*channel*/,
                                                 std::uint32_t /*sequence*/,
                                                 const std::function<bool()>& /*stop*/,
                                                 Deadline /*deadline*/) override {
        return fail(MPIB_ERROR_INTERNAL, "collectives do not look for messages");
    }
    [[nodiscard]] std::optional<int> sender_of(std::uint32_t /*channel*/,
                                               std::uint32_t /*sequence*/) override {
        return std::nullopt;
    }
    [[nodiscard]] bool is_gone(int /*rank*/) override { return false; }
    void wake() override {}
    void abandon() override {}
    void close(Deadline /*deadline*/) override {}

    // The message has come; its receive may not have been posted yet.
    void deliver(std::size_t message, Time now);
    void complete(Request request, Time now);
    void spend(Time time) { clock_ += time; }

    // The rank will never get what it waits for.
    void give_up() { hopeless_ = true; }

    [[nodiscard]] Time clock() const { return clock_; }
    [[nodiscard]] int depth() const { return depth_; }
    [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }
    [[nodiscard]] int connections() const {
        return static_cast<int>(std::count(connected_.begin(), connected_.end(), true));
    }
    void advance_to(Time time) { clock_ = std::max(clock_, time); }

  private:
    [[nodiscard]] Request new_operation(Operation operation);
    void hand_over(std::size_t message, Request receive, Time now);

    World& world_;
    int rank_;
    Time clock_ = 0;
    int depth_ = 0;
    std::uint64_t bytes_sent_ = 0;
    std::vector<bool> connected_;  // by rank
    bool hopeless_ = false;
    std::optional<Request> awaited_;
    std::vector<Operation> operations_;
    std::vector<Request> unused_;
    std::vector<Request> receives_;        // posted and not matched, in order
    std::vector<std::size_t> unexpected_;  // messages that came before their receive, in order
};

// Everything that one simulation consists of.
class World {
  public:
    World(const Simulation::Options& options, const Simulation::Body& body)
        : options_(options), body_(body), network_(options.hardware, options.ranks) {}

    [[nodiscard]] Outcome<Report> run();

    [[nodiscard]] const Simulation::Options& options() const { return options_; }
    [[nodiscard]] Network& network() { return network_; }
    [[nodiscard]] Rank& rank(int number) { return *ranks_[static_cast<std::size_t>(number)]; }
    [[nodiscard]] Rank& running() { return rank(running_); }

    [[nodiscard]] Message& message(std::size_t number) { return messages_[number]; }
    [[nodiscard]] std::size_t add(const Message& message) {
        ++sent_;
        if (free_.empty()) {
            messages_.push_back(message);
            return messages_.size() - 1;
        }
        const std::size_t number = free_.back();
        free_.pop_back();
        messages_[number] = message;
        return number;
    }
    void remove(std::size_t message) { free_.push_back(message); }

  private:
    void start_ranks();
    void resume(int rank) {
        running_ = rank;
        fibers_[static_cast<std::size_t>(rank)]->resume();
    }
    void converse(int rank);
    void handle(const Network::Event& event);
    void end_those_who_wait();
    [[nodiscard]] Outcome<Report> report() const;

    Simulation::Options options_;
    const Simulation::Body& body_;
    Network network_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    std::vector<std::unique_ptr<Fiber>> fibers_;
    std::vector<Done> outcomes_;
    Scratch shared_scratch_;
    std::vector<Message> messages_;
    std::vector<std::size_t> free_;
    std::uint64_t sent_ = 0;
    int running_ = 0;
};

// The simulation that is running: reductions are plain functions, which can be told nothing else.
World* current = nullptr;

int Rank::size() const {
    return world_.options().ranks;
}

Request Rank::new_operation(Operation operation) {
    operation.posted = clock_;
    if (unused_.empty()) {
        operations_.push_back(std::move(operation));
        return static_cast<Request>(operations_.size() - 1);
    }
    const Request request = unused_.back();
    unused_.pop_back();
    operations_[request] = std::move(operation);
    return request;
}

Outcome<Request> Rank::post_send(int to, Tag tag, std::span<const std::byte> data) {
    clock_ += world_.network().posting_time(rank_, to);
    bytes_sent_ += data.size();
    connected_[static_cast<std::size_t>(to)] = true;
    const Request request = new_operation({});
    world_.network().inject_at(
        clock_, world_.add({{rank_, to, data.size()}, tag, data.data(), request, depth_ + 1}));
    return request;
}

Outcome<Request> Rank::post_receive(int from, Tag tag, std::span<std::byte> data) {
    if (world_.options().carries_payload && !data.empty()) {
        std::memset(data.data(), 0xEE, data.size());
    }
    connected_[static_cast<std::size_t>(from)] = true;
    Operation operation;
    operation.receives = true;
    operation.from = from;
    operation.tag = tag;
    operation.memory = data;
    const Request request = new_operation(std::move(operation));
    for (auto waiting = unexpected_.begin(); waiting != unexpected_.end(); ++waiting) {
        if (!match(operations_[request], world_.message(*waiting))) continue;
        const std::size_t message = *waiting;
        unexpected_.erase(waiting);
        hand_over(message, request, clock_);
        return request;
    }
    receives_.push_back(request);
    return request;
}

void Rank::deliver(std::size_t message, Time now) {
    for (auto receive = receives_.begin(); receive != receives_.end(); ++receive) {
        if (!match(operations_[*receive], world_.message(message))) continue;
        const Request request = *receive;
        receives_.erase(receive);
        hand_over(message, request, std::max(now, operations_[request].posted));
        return;
    }
    unexpected_.push_back(message);
}

void Rank::hand_over(std::size_t number, Request receive, Time now) {
    const Message message = world_.message(number);
    world_.remove(number);
    Operation& operation = operations_[receive];
    if (message.tag.agreement != operation.tag.agreement ||
        message.route.bytes != operation.memory.size()) {
        operation.mismatch = fmt::format("it sent {} bytes of call {:x}, expected {} of call {:x}",
                                         message.route.bytes, message.tag.agreement,
                                         operation.memory.size(), operation.tag.agreement);
    } else if (world_.options().carries_payload && !operation.memory.empty()) {
        std::memcpy(operation.memory.data(), message.data, operation.memory.size());
    }
    operation.depth = message.depth;
    complete(receive, now);
    world_.rank(message.route.from).complete(message.sender_request, now);
}

void Rank::complete(Request request, Time now) {
    operations_[request].done = true;
    operations_[request].completed = now;
    if (awaited_ == request) world_.network().resume_at(std::max(now, clock_), rank_);
}

Done Rank::wait(Request request, Deadline /*deadline*/) {
    if (!operations_[request].done) {
        awaited_ = request;
        Fiber::suspend();
        awaited_.reset();
        if (hopeless_) return fail(MPIB_ERROR_TIMEOUT, "nobody is going to");
    }
    const Operation& operation = operations_[request];
    advance_to(operation.completed);
    if (operation.receives) depth_ = std::max(depth_, operation.depth);
    unused_.push_back(request);
    if (operation.mismatch) return fail(MPIB_ERROR_MISMATCH, *operation.mismatch);
    return {};
}

void World::converse(int number) {
    Scratch own;
    Conversation::Call call;
    call.name = "simulation";
    call.sequence = 1;
    call.tuning.segment_bytes = options_.segment_bytes;
    Conversation talk(rank(number), options_.carries_payload ? own : shared_scratch_, call);
    outcomes_[static_cast<std::size_t>(number)] = body_(talk);
}

void World::start_ranks() {
    outcomes_.resize(static_cast<std::size_t>(options_.ranks));
    for (int number = 0; number < options_.ranks; ++number) {
        ranks_.push_back(std::make_unique<Rank>(*this, number));
        fibers_.push_back(std::make_unique<Fiber>([this, number] { converse(number); }));
        network_.resume_at(0, number);
    }
}

void World::handle(const Network::Event& event) {
    using Kind = Network::Event::Kind;
    if (event.kind == Kind::resume_rank) {
        const auto number = static_cast<int>(event.subject);
        rank(number).advance_to(event.time);
        resume(number);
    } else if (event.kind == Kind::deliver) {
        rank(message(event.subject).route.to).deliver(event.subject, event.time);
    } else {
        network_.move(event, message(event.subject).route);
    }
}

// Nothing is under way any more. Those who still wait return a failure, which ends their fibers.
void World::end_those_who_wait() {
    for (int number = 0; number < options_.ranks; ++number) {
        Fiber& fiber = *fibers_[static_cast<std::size_t>(number)];
        rank(number).give_up();
        running_ = number;
        while (!fiber.finished())
            fiber.resume();
    }
}

Outcome<Report> World::report() const {
    Report report;
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
        if (!outcomes_[number]) return mpi_bridge::pass_on(Done(outcomes_[number]));
        const Rank& rank = *ranks_[number];
        report.seconds = std::max(report.seconds, rank.clock());
        report.steps = std::max(report.steps, rank.depth());
        report.bytes_per_rank = std::max(report.bytes_per_rank, rank.bytes_sent());
        report.connections_per_rank = std::max(report.connections_per_rank, rank.connections());
    }
    report.messages = sent_;
    return report;
}

Outcome<Report> World::run() {
    current = this;
    start_ranks();
    while (!network_.idle())
        handle(network_.next());
    end_those_who_wait();
    current = nullptr;
    return report();
}

// Each pass over accumulators takes gamma per byte, as it does where the model was measured.
const Reduction& real() {
    static const Reduction& sum = *mpi_bridge::find_reduction(MPIB_FLOAT32, MPIB_SUM);
    return sum;
}

bool charge(std::size_t count) {
    current->running().spend(static_cast<double>(count * sizeof(float)) *
                             current->options().hardware.between.gamma);
    return current->options().carries_payload;
}

void load(void* accumulators, const void* elements, std::size_t count) {
    if (charge(count)) real().load(accumulators, elements, count);
}
void add(void* accumulators, const void* elements, std::size_t count) {
    if (charge(count)) real().add(accumulators, elements, count);
}
void merge(void* result, const void* first, const void* second, std::size_t count) {
    if (charge(count)) real().merge(result, first, second, count);
}
void store(void* elements, const void* accumulators, std::size_t count, int ranks) {
    if (charge(count)) real().store(elements, accumulators, count, ranks);
}
void combine(void* elements, const void* const* sources, std::size_t sources_count,
             std::size_t count, int ranks) {
    if (charge(count)) real().combine(elements, sources, sources_count, count, ranks);
}

}  // namespace

Outcome<Report> Simulation::run(const Options& options, const Body& body) {
    return World(options, body).run();
}

const Reduction& Simulation::float_sum() {
    static const Reduction sum = [] {
        Reduction charged = real();
        charged.load = load;
        charged.add = add;
        charged.merge = merge;
        charged.store = store;
        charged.combine = combine;
        return charged;
    }();
    return sum;
}

}  // namespace mpi_bridge_scale

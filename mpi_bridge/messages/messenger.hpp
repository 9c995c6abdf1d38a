// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/failure_token.hpp"
#include "core/waits.hpp"
#include "messages/listeners.hpp"
#include "messages/outbox.hpp"
#include "messages/protocol.hpp"
#include "transport/transport.hpp"

// Messages between two ranks.
//
//   messenger.hpp  carries out the protocol's actions; what the C API calls
//   protocol.hpp   what the ranks tell each other: a state machine
//   matching.hpp   which message goes to which receive
//   note.hpp       what is sent about a message before its data
//   outbox.hpp     the notes that this rank has sent, until they are delivered
//   listeners.hpp  the threads that take in the notes of the peers
namespace mpi_bridge {

// The messages between two ranks of mpi_bridge_messages.h; the contracts are documented there.
//
// The data is moved by whatever thread makes the transport progress, and the thread that waits for
// a message also waits for its data. One lock, that of the listeners, is for the whole folder. Any
// thread may call any function.
class Messenger final : private Listeners::Hearer {
  public:
    using Id = Protocol::Id;
    static constexpr int any_rank = Protocol::any_rank;

    struct Parts {
        Transport* transport = nullptr;
        Waits* waits = nullptr;           // where waits are registered, if anywhere
        FailureToken* failure = nullptr;  // the messenger watches it and may fail it
        // How long a message may wait for its peer; asked before each wait.
        std::function<Seconds()> timeout;
        // How often the thread looks for peers that have left, and for a leader that is stuck.
        Seconds between_looks{1};
        // Called without a lock when a peer has closed a process set, by the messenger's thread or
        // one that waits for a message.
        std::function<void(int peer, int process_set)> closed;
    };

    explicit Messenger(Parts parts);
    ~Messenger() override;  // shutdown() and ended() must come first
    Messenger(const Messenger&) = delete;
    Messenger& operator=(const Messenger&) = delete;

    [[nodiscard]] Outcome<Id> send(int to, std::string_view channel, std::int64_t tag,
                                   std::span<const std::byte> data);
    [[nodiscard]] Outcome<Id> receive(int from, std::string_view channel, std::int64_t tag,
                                      std::span<std::byte> memory);
    // Returns nullopt if the message is unknown.
    [[nodiscard]] std::optional<bool> poll(Id id);
    // With seconds <= 0 it waits as long as the timeout allows.
    [[nodiscard]] Done wait(Id id, double seconds);
    [[nodiscard]] std::optional<int> peer(Id id);
    [[nodiscard]] Done release(Id id);

    // Tells a peer that this rank has closed a process set. Does not wait, and is delivered after
    // everything that this rank has told this peer before.
    [[nodiscard]] Done tell_closed(int to, int process_set);

    // Fails what has not been matched, with this cause, and everything that comes later.
    void shutdown(const Failure& cause);
    // Returns whether the thread has ended and no data is in flight. Waits for that until the
    // deadline.
    [[nodiscard]] bool ended(Deadline deadline);

  private:
    using Lock = Listeners::Lock;

    // A message as its waits see it.
    struct Operation {
        enum class Stage {
            waiting,  // for the other side
            moving,   // `request` is posted
            done,
        };
        Id id = 0;
        Stage stage = Stage::waiting;
        bool receives = false;
        int peer = any_rank;
        std::size_t bytes = 0;
        Request request = 0;
        bool attended = false;  // a thread is in Transport::wait() for the request
        // When the wait that goes on began, or the latest one. A caller may wait in short pieces,
        // between which it looks for signals; these are one wait.
        Clock::time_point wait_began{};
        std::optional<Clock::time_point> wait_ended{};
        int waiters = 0;
        Clock::time_point moving_since{};
        std::optional<Failure> failure{};

        [[nodiscard]] bool waits() const { return stage == Stage::waiting; }
        [[nodiscard]] bool moves() const { return stage == Stage::moving; }
        [[nodiscard]] bool done() const { return stage == Stage::done; }
    };
    using OperationPointer = std::shared_ptr<Operation>;

    [[nodiscard]] Done admit(int peer, bool receives) const;
    // Takes the lock, and runs a body that ends in carry_out(), if messages are possible. If it
    // fails, everything fails.
    template <typename Body>
    [[nodiscard]] auto while_up(Body&& body) -> decltype(body());

    // These need the lock.
    [[nodiscard]] Id add(Operation operation);
    [[nodiscard]] OperationPointer find(Id id) const;
    // Carries out what the protocol asks for.
    [[nodiscard]] Done carry_out();
    [[nodiscard]] Done act(const Protocol::SendNote& action) { return outbox_.send(action); }
    [[nodiscard]] Done act(const Protocol::SendNoData& action) { return outbox_.send(action); }
    [[nodiscard]] Done act(const Protocol::SendData& action);
    [[nodiscard]] Done act(const Protocol::ReceiveData& action);
    [[nodiscard]] Done act(const Protocol::Complete& action);
    void begin_to_move(Operation& operation, int peer, Request request);
    void complete(Operation& operation, std::optional<Failure> failure);

    // Moves the data of an operation that no other thread attends, and returns the failure that
    // ends everything.
    [[nodiscard]] Done attend(Lock& lock, Operation& operation, Deadline deadline);
    [[nodiscard]] Done await(Lock& lock, Operation& operation, Deadline deadline);
    [[nodiscard]] Done await_end(Lock& lock, Operation& operation, Deadline deadline);
    [[nodiscard]] Done outcome_of(Lock& lock, const Operation& operation);

    // What the listeners hear.
    [[nodiscard]] bool has_place_for(int from, const Note& note) override;
    [[nodiscard]] Done hear(int from, const Note& note, std::span<const std::byte> data) override;
    void closed(int from, int process_set) override;
    [[nodiscard]] Outcome<bool> look_for_peers_that_left() override;
    [[nodiscard]] Done reap_notes() override;
    [[nodiscard]] tl::unexpected<Failure> fail_all(Lock& lock, Failure failure) override;

    const Parts parts_;
    Protocol protocol_;
    Outbox outbox_;
    Listeners listeners_;
    std::map<Id, OperationPointer> operations_;
    std::optional<Failure> down_;  // why there can be no more messages
    // Declared last, so that it is called only while everything above exists.
    std::optional<FailureToken::Watch> watch_;
};

}  // namespace mpi_bridge

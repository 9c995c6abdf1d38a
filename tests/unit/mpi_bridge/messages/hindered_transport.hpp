// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "messages/note.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge_test {

// A transport whose notes come in pieces, and whose threads stop, when a test says so. It also
// notes what is sent, and fails the test when an operation is waited for after it was given back.
class HinderedTransport final : public mpi_bridge::Transport {
  public:
    using Deadline = mpi_bridge::Deadline;
    using Note = mpi_bridge::Note;
    using Request = mpi_bridge::Request;
    using Tag = mpi_bridge::Tag;

    explicit HinderedTransport(mpi_bridge::Transport& real) : real_(real) {}

    // While this is set, the last bytes of a note do not come.
    void hold_back_notes(bool held) { held_back_ = held; }
    // While this is set, nothing that has been posted for data comes.
    void hold_back_data(bool held) { data_held_back_ = held; }
    // Whether a thread has the beginning of a note, or waits for data.
    [[nodiscard]] bool has_half_a_note() const { return halves_ != 0; }
    // Whether a thread has waited in vain for data that is held back.
    [[nodiscard]] bool has_waited_for_data() const { return waited_for_data_; }
    // While this is set, the thread does not return from await_message(), as if it were stopped.
    void stop(std::thread::id thread) { stopped_ = thread; }
    [[nodiscard]] bool has_stopped() const { return stopping_; }
    // What the notes were that this rank has sent.
    [[nodiscard]] int sent(Note::Kind kind) const {
        const std::lock_guard lock(mutex_);
        int count = 0;
        for (const auto each : kinds_)
            count += each == kind ? 1 : 0;
        return count;
    }
    // How often somebody has asked whether a peer is gone.
    [[nodiscard]] int looks() const { return looks_; }

    [[nodiscard]] int rank() const override { return real_.rank(); }
    [[nodiscard]] int size() const override { return real_.size(); }

    [[nodiscard]] mpi_bridge::Outcome<Request> post_send(int to, Tag tag,
                                                         std::span<const std::byte> data) override {
        return sent(tag, data, real_.post_send(to, tag, data));
    }
    [[nodiscard]] mpi_bridge::Outcome<Request> post_send_ahead(
        int to, Tag tag, std::span<const std::byte> data) override {
        return sent(tag, data, real_.post_send_ahead(to, tag, data));
    }
    [[nodiscard]] mpi_bridge::Outcome<Request> post_receive(int from, Tag tag,
                                                            std::span<std::byte> data) override {
        auto request = real_.post_receive(from, tag, data);
        const std::lock_guard lock(mutex_);
        if (request) ++posted_[*request];
        if (request) ++(is_note(tag) ? notes_ : data_)[*request];
        return request;
    }
    bool progress() override { return real_.progress(); }

    [[nodiscard]] mpi_bridge::Done wait(Request request, Deadline deadline) override {
        bool of_note = false;
        bool of_data = false;
        {
            const std::lock_guard lock(mutex_);
            EXPECT_GT(posted_[request], 0) << "it was given back before";
            of_note = notes_[request] > 0;
            of_data = data_[request] > 0;
        }
        if (!of_note && !of_data) return wait_for_real(request, deadline);
        const std::atomic<bool>& held = of_note ? held_back_ : data_held_back_;
        ++halves_;
        while (held && !deadline.passed()) {
            (void)real_.progress();
            pause();
        }
        const bool held_back = held;
        --halves_;
        if (held_back && of_data) waited_for_data_ = true;
        if (held_back) return mpi_bridge::fail(MPIB_ERROR_TIMEOUT, "the rest does not come");
        return wait_for_real(request, deadline);
    }
    [[nodiscard]] mpi_bridge::Outcome<Arrival> await_message(std::uint32_t channel,
                                                             std::uint32_t sequence,
                                                             const std::function<bool()>& stop,
                                                             Deadline deadline) override {
        while (stopped_ == std::this_thread::get_id()) {
            stopping_ = true;
            pause();
        }
        stopping_ = false;
        return real_.await_message(channel, sequence, stop, deadline);
    }
    [[nodiscard]] std::optional<int> sender_of(std::uint32_t channel,
                                               std::uint32_t sequence) override {
        return real_.sender_of(channel, sequence);
    }
    [[nodiscard]] bool is_gone(int rank) override {
        ++looks_;
        return real_.is_gone(rank);
    }
    void wake() override { real_.wake(); }
    void abandon() override { real_.abandon(); }
    void close(Deadline deadline) override { real_.close(deadline); }

  private:
    static bool is_note(Tag tag) { return tag.channel == mpi_bridge::notes_channel; }
    mpi_bridge::Outcome<Request> sent(Tag tag, std::span<const std::byte> data,
                                      mpi_bridge::Outcome<Request> request) {
        const std::lock_guard lock(mutex_);
        if (request) ++posted_[*request];
        if (is_note(tag) && data.size() == sizeof(Note)) {
            Note::Kind kind{};
            std::memcpy(&kind, data.data(), sizeof kind);
            kinds_.push_back(kind);
        }
        return request;
    }
    static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
    mpi_bridge::Done wait_for_real(Request request, Deadline deadline) {
        auto done = real_.wait(request, deadline);
        if (!done && still_posted(done.error())) return done;
        const std::lock_guard lock(mutex_);
        --posted_[request];
        for (auto* const counts : {&notes_, &data_}) {
            if (int& count = (*counts)[request]; count != 0) --count;
        }
        return done;
    }

    mpi_bridge::Transport& real_;
    std::atomic<bool> held_back_{false};
    std::atomic<bool> data_held_back_{false};
    std::atomic<int> halves_{0};
    std::atomic<bool> waited_for_data_{false};
    std::atomic<std::thread::id> stopped_{};
    std::atomic<bool> stopping_{false};
    std::atomic<int> looks_{0};
    mutable std::mutex mutex_;
    // How often a request is posted: another thread may be given the number of one that is done
    // before this transport has taken note of its end.
    std::map<Request, int> posted_;
    std::map<Request, int> notes_;  // receives of notes
    std::map<Request, int> data_;   // receives of data
    std::vector<Note::Kind> kinds_;
};

}  // namespace mpi_bridge_test

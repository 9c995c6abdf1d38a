// SPDX-License-Identifier: Apache-2.0
#include "messages/outbox.hpp"

#include <algorithm>
#include <iterator>

#include "core/catching.hpp"

namespace mpi_bridge {

namespace {

// The kind of what is sent without a note: nothing depends on whether it can be delivered, as with
// a refusal.
constexpr Note::Kind of_no_consequence = Note::Kind::refuse;

}  // namespace

Outbox::Sent& Outbox::add(int to, Note::Kind kind, std::uint32_t serial) {
    Sent& sent = posted_.emplace_back();
    sent.to = to;
    sent.note.kind = kind;
    sent.note.serial = serial;
    return sent;
}

Done Outbox::send(const Protocol::SendNote& note) {
    TRY(reap());
    Sent& sent = add(note.to, note.kind, note.serial);
    sent.note.address = note.address;
    sent.note.bytes = note.bytes;
    const auto inside = note.carried.first(std::min(note.carried.size(), Note::room));
    std::copy(inside.begin(), inside.end(), sent.note.carried.begin());
    const auto behind = note.carried.subspan(inside.size());
    const bool is_posted =
        TRY(post(note_tag, std::as_bytes(std::span(&sent.note, 1)), !behind.empty()));
    if (!is_posted || behind.empty()) return {};
    Sent& rest = add(note.to, of_no_consequence, note.serial);
    rest.behind.assign(behind.begin(), behind.end());
    TRY(post(data_tag(note.serial), rest.behind));
    return {};
}

Done Outbox::send(const Protocol::SendNoData& answer) {
    TRY(reap());
    add(answer.to, of_no_consequence, answer.serial);
    TRY(post(no_data_tag(answer.serial), {}));
    return {};
}

Outcome<bool> Outbox::post(Tag tag, std::span<const std::byte> bytes, bool ahead) {
    Sent& sent = posted_.back();
    auto request = catching([&] {
        return ahead ? transport_->post_send_ahead(sent.to, tag, bytes)
                     : transport_->post_send(sent.to, tag, bytes);
    });
    if (request) {
        sent.request = *request;
        return true;
    }
    const Sent unsent = sent;
    posted_.pop_back();
    if (!says_left(request.error(), unsent.to)) return tl::unexpected(std::move(request).error());
    protocol_.undelivered(unsent.to, unsent.note.kind, unsent.note.serial);
    return false;
}

Done Outbox::reap() {
    for (auto sent = posted_.begin(); sent != posted_.end();) {
        auto done = transport_->wait(sent->request, Deadline::in(Seconds(0)));
        if (done) {
            sent = posted_.erase(sent);
            continue;
        }
        const auto next = std::next(sent);
        if (says_left(done.error(), sent->to)) {
            undelivered_.splice(undelivered_.end(), posted_, sent);
            protocol_.undelivered(sent->to, sent->note.kind, sent->note.serial);
        } else if (done.error().status != MPIB_ERROR_TIMEOUT) {
            if (!Transport::still_posted(done.error())) posted_.erase(sent);
            return done;
        }
        sent = next;
    }
    return {};
}

void Outbox::clear() {
    posted_.clear();
    undelivered_.clear();
}

bool Outbox::says_left(const Failure& failure, int rank) {
    if (failure.status != MPIB_ERROR_PEER_LOST || failure.of_rank != rank) return false;
    if (!transport_->is_gone(rank)) return false;
    // This fails if any peer was lost, and then everything fails.
    return transport_
        ->await_message(
            notes_channel, note_tag.sequence, [] { return false; }, Deadline::in(Seconds(0)))
        .has_value();
}

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#include "messages/outbox.hpp"

#include <algorithm>
#include <iterator>

#include "core/catching.hpp"

namespace mpi_bridge {

Done Outbox::send(const Protocol::SendNote& note) {
    TRY(reap());
    Sent& sent = posted_.emplace_back();
    sent.to = note.to;
    sent.note.kind = note.kind;
    sent.note.serial = note.serial;
    sent.note.address = note.address;
    sent.note.bytes = note.bytes;
    std::copy(note.carried.begin(), note.carried.end(), sent.note.carried.begin());
    return post(note_tag, sizeof sent.note);
}

Done Outbox::send(const Protocol::SendNoData& answer) {
    TRY(reap());
    Sent& sent = posted_.emplace_back();
    sent.to = answer.to;
    // Nothing depends on an answer that cannot be delivered, as on a refusal.
    sent.note.kind = Note::Kind::refuse;
    sent.note.serial = answer.serial;
    return post(no_data_tag(answer.serial), 0);
}

Done Outbox::post(Tag tag, std::size_t bytes) {
    Sent& sent = posted_.back();
    auto request = catching([&] {
        return transport_->post_send(sent.to, tag,
                                     std::as_bytes(std::span(&sent.note, 1)).first(bytes));
    });
    if (request) {
        sent.request = *request;
        return {};
    }
    const Sent unsent = sent;
    posted_.pop_back();
    if (!says_left(request.error(), unsent.to)) return tl::unexpected(std::move(request).error());
    protocol_.undelivered(unsent.to, unsent.note.kind, unsent.note.serial);
    return {};
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

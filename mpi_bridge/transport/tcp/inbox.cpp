// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/inbox.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mpi_bridge {
namespace {

constexpr std::size_t dropped_at_once = 64UL * 1024;

void complete_receive(TcpOperation& receive, const TcpHeader& header) {
    receive.received = header;
    receive.done = true;
}

}  // namespace

void TcpInbox::expect(TcpOperation& receive) {
    const auto message = std::find_if(kept_.begin(), kept_.end(), [&](const Message& each) {
        return each.header.key == receive.key;
    });
    if (message == kept_.end()) {
        posted_.push_back(&receive);
    } else {
        give_away(message, receive);
    }
}

void TcpInbox::give_away(std::list<Message>::iterator message, TcpOperation& receive) {
    const TcpHeader header = message->header;
    const bool fits = header.bytes == receive.bytes;
    if (fits && message->landed != 0) {
        std::memcpy(receive.memory, message->piece.memory.get(), message->landed);
    }
    kept_bytes_ -= message->landed;
    if (keeping_ == &*message) {
        // The rest is still to come.
        keeping_ = nullptr;
        if (fits) target_ = &receive;
    }
    memory_.give_back(std::move(message->piece));
    kept_.erase(message);
    if (target_ != &receive) complete_receive(receive, header);
}

void TcpInbox::begin(const TcpHeader& header) {
    header_ = header;
    left_ = header.bytes;
    const auto receive =
        std::find_if(posted_.begin(), posted_.end(),
                     [&](const TcpOperation* each) { return each->key == header.key; });
    if (receive == posted_.end()) {
        Message message;
        message.header = header;
        message.piece = memory_.take(left_);
        kept_.push_back(std::move(message));
        keeping_ = &kept_.back();
    } else {
        target_ = *receive;
        posted_.erase(receive);
        if (target_->bytes != header.bytes) {
            complete_receive(*target_, header);
            target_ = nullptr;
        }
    }
    if (left_ == 0) finish();
}

std::span<std::byte> TcpInbox::landing() {
    if (left_ == 0) return {};
    const std::size_t landed = header_.bytes - left_;
    if (target_ != nullptr) return {target_->memory + landed, left_};
    if (keeping_ != nullptr) return {keeping_->piece.memory.get() + landed, left_};
    if (dropped_.empty()) dropped_.resize(dropped_at_once);
    return std::span(dropped_).first(std::min(dropped_.size(), left_));
}

void TcpInbox::landed(std::size_t bytes) {
    left_ -= bytes;
    if (keeping_ != nullptr) {
        keeping_->landed += bytes;
        kept_bytes_ += bytes;
    }
    if (left_ == 0) finish();
}

void TcpInbox::finish() {
    if (target_ != nullptr) complete_receive(*target_, header_);
    target_ = nullptr;
    keeping_ = nullptr;
}

bool TcpInbox::keeps(std::uint32_t call) const {
    return std::any_of(kept_.begin(), kept_.end(),
                       [&](const Message& each) { return TcpKey::call(each.header.key) == call; });
}

void TcpInbox::clear() {
    posted_.clear();
    for (Message& message : kept_)
        memory_.give_back(std::move(message.piece));
    kept_.clear();
    left_ = 0;
    target_ = nullptr;
    keeping_ = nullptr;
    kept_bytes_ = 0;
}

}  // namespace mpi_bridge

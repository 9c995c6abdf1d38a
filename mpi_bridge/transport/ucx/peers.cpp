// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/peers.hpp"

#include <string>

namespace mpi_bridge {

void UcxPeers::on_error(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {
    auto& broken = *static_cast<Peer*>(peer);
    if (broken.lost_since) return;
    broken.lost_since = Clock::now();
    broken.owner->lost_.push_back(broken.rank);
}

Outcome<ucp_ep_h> UcxPeers::endpoint(int rank) {
    if (const auto known = peers_.find(rank); known != peers_.end()) {
        return known->second->endpoint;
    }
    auto address = TRY(address_of_(rank));

    auto peer = std::make_unique<Peer>();
    peer->owner = this;
    peer->rank = rank;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_error;
    params.err_handler.arg = peer.get();
    const auto status = ucp_ep_create(worker_, &params, &peer->endpoint);
    if (status != UCS_OK) {
        return fail(MPIB_ERROR_INTERNAL, "UCX cannot reach rank " + std::to_string(rank) + ": " +
                                             ucs_status_string(status) +
                                             "; do both hosts share a transport of UCX_TLS?");
    }
    return peers_.emplace(rank, std::move(peer)).first->second->endpoint;
}

std::optional<Clock::time_point> UcxPeers::lost_since(int rank) const {
    const auto known = peers_.find(rank);
    if (known == peers_.end()) return std::nullopt;
    return known->second->lost_since;
}

bool UcxPeers::finish(std::vector<void*>& requests, Deadline deadline) const {
    while (!requests.empty() && !deadline.passed()) {
        ucp_worker_progress(worker_);
        std::erase_if(requests, [](void* request) {
            if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
            ucp_request_free(request);
            return true;
        });
    }
    for (void* request : requests)
        ucp_request_free(request);
    return requests.empty();
}

void UcxPeers::say_to_all(ucp_tag_t tag, Deadline deadline) {
    std::vector<void*> sending;
    const ucp_request_param_t params{};
    for (const auto& [rank, peer] : peers_) {
        if (peer->lost_since) continue;
        void* request = ucp_tag_send_nbx(peer->endpoint, nullptr, 0, tag, &params);
        if (UCS_PTR_IS_PTR(request)) sending.push_back(request);
    }
    (void)finish(sending, deadline);
}

void* UcxPeers::start_close(ucp_ep_h endpoint, bool force) const {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    void* request = ucp_ep_close_nbx(endpoint, &params);
    return UCS_PTR_IS_PTR(request) ? request : nullptr;
}

void UcxPeers::close(bool force, Deadline deadline) {
    std::vector<void*> closing;
    for (const auto& [rank, peer] : peers_) {
        void* request = start_close(peer->endpoint, force || peer->lost_since.has_value());
        if (request != nullptr) closing.push_back(request);
    }
    // The error callbacks refer to the peers until their endpoints are gone, so the peers are kept
    // until then. Destroying the worker ends an endpoint that is still closing, and its request.
    if (finish(closing, deadline)) peers_.clear();
}

}  // namespace mpi_bridge

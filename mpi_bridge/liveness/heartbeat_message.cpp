// SPDX-License-Identifier: Apache-2.0
#include "liveness/heartbeat_message.hpp"

#include <algorithm>
#include <string>

namespace mpi_bridge {

HeartbeatMessage HeartbeatMessage::of_failure(int rank, const Failure& failure) {
    HeartbeatMessage message{.kind = Kind::failure, .rank = rank, .status = failure.status};
    const std::size_t length = failure.text.copy(message.text.data(), message.text.size() - 1);
    message.text[length] = '\0';
    return message;
}

Failure HeartbeatMessage::failure() const {
    const auto end = std::find(text.begin(), text.end(), '\0');
    return {.status = static_cast<mpib_status>(status),
            .text = told_by(rank, std::string(text.begin(), end)),
            .of_rank = rank};
}

std::vector<int> failure_neighbours(int rank, int size) {
    std::vector<int> neighbours{(rank + 1) % size, (rank + size - 1) % size};
    for (int bit = 1; bit < size; bit <<= 1) {
        if (const int other = rank ^ bit; other < size) neighbours.push_back(other);
    }
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    std::erase(neighbours, rank);
    return neighbours;
}

}  // namespace mpi_bridge

// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include <c10/util/ArrayRef.h>

namespace mpi_bridge::torch {

void require_one_type(const char* operation, const at::Tensor& tensor,
                      const std::vector<at::Tensor>& others) {
    for (const auto& other : others) {
        TORCH_CHECK_VALUE(other.scalar_type() == tensor.scalar_type(), operation,
                          ": there are tensors of ", tensor.scalar_type(), " and of ",
                          other.scalar_type(), "; all must have the same type");
    }
}

void require_place_for(const at::Tensor& output, const at::Tensor& part) {
    TORCH_CHECK_VALUE(output.numel() == part.numel(), "reduce_scatter: the output has ",
                      output.numel(), " elements, this rank's part ", part.numel());
}

std::vector<std::int64_t> rows_for_each(const char* operation,
                                        const std::vector<std::int64_t>& splits,
                                        const at::Tensor& tensor, int size) {
    const auto rows = tensor.size(0);
    if (splits.empty()) {
        TORCH_CHECK_VALUE(rows % size == 0, operation, ": ", rows, " rows cannot be divided among ",
                          size, " ranks");
        return std::vector<std::int64_t>(size, rows / size);
    }
    TORCH_CHECK_VALUE(splits.size() == static_cast<std::size_t>(size), operation, ": ",
                      splits.size(), " splits for ", size, " ranks");
    TORCH_CHECK_VALUE(std::ranges::min(splits) >= 0 &&
                          std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) == rows,
                      operation, ": the splits ", c10::IntArrayRef(splits),
                      " do not divide the tensor's ", rows, " rows");
    return splits;
}

std::vector<std::int64_t> bytes_of_rows(const std::vector<std::int64_t>& rows,
                                        const at::Tensor& tensor) {
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    const auto row = tensor.size(0) == 0 ? 0 : bytes / tensor.size(0);
    std::vector<std::int64_t> lengths;
    for (const auto count : rows) {
        lengths.push_back(count * row);
    }
    return lengths;
}

std::vector<std::int64_t> bytes_of(const std::vector<at::Tensor>& tensors) {
    std::vector<std::int64_t> lengths;
    for (const auto& tensor : tensors) {
        lengths.push_back(static_cast<std::int64_t>(tensor.nbytes()));
    }
    return lengths;
}

void require_member(std::int64_t rank, int size) {
    TORCH_CHECK_VALUE(rank >= 0 && rank < size, "the group has no rank ", rank,
                      ": its ranks are 0 to ", size - 1);
}

void require_tag(int tag) {
    TORCH_CHECK_VALUE(tag >= 0, "the tag ", tag, " is negative");
}

void require_received(const char* operation, const InFlight& in_flight,
                      const std::vector<std::int64_t>& expected, const std::vector<int>& ranks) {
    const auto result = in_flight.result();
    const std::span received(result.received_rows, static_cast<std::size_t>(result.members));
    for (std::size_t place = 0; place < received.size(); ++place) {
        if (received[place] != expected[place]) {
            throw Error(MPIB_ERROR_MISMATCH,
                        std::string(operation) + ": rank " + std::to_string(ranks[place]) +
                            " sent " + std::to_string(received[place]) + " bytes where " +
                            std::to_string(expected[place]) + " were expected");
        }
    }
}

}  // namespace mpi_bridge::torch

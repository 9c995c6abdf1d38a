// SPDX-License-Identifier: Apache-2.0
#include "trace/activity.hpp"

#include <array>
#include <cstddef>

namespace mpi_bridge {
namespace {

struct Kind {
    std::string_view name;       // for messages
    std::string_view operation;  // for timelines
};

// By mpib_kind.
constexpr std::array<Kind, MPIB_KIND_COUNT> kinds{{{"allreduce", "ALLREDUCE"},
                                                   {"allgather", "ALLGATHER"},
                                                   {"broadcast", "BROADCAST"},
                                                   {"reduce_scatter", "REDUCESCATTER"},
                                                   {"alltoall", "ALLTOALL"},
                                                   {"reduce", "REDUCE"},
                                                   {"barrier", "BARRIER"},
                                                   {"join", "JOIN"}}};
constexpr Kind unknown_kind{"operation", "OPERATION"};

const Kind& entry(mpib_kind kind) {
    const auto index = static_cast<std::size_t>(kind);
    return index < kinds.size() ? kinds[index] : unknown_kind;
}

struct Words {
    std::string_view text;
    bool with_operation = false;  // the operation follows the text
};

Words words(Phase phase) {
    switch (phase) {
        case Phase::negotiate:
            return {"NEGOTIATE_", true};
        case Phase::operation:
            return {"", true};
        case Phase::queue:
            return {"QUEUE"};
        case Phase::wait_for_data:
            return {"WAIT_FOR_DATA"};
        case Phase::wait_for_other_tensor_data:
            return {"WAIT_FOR_OTHER_TENSOR_DATA"};
        case Phase::memcpy_in_fusion_buffer:
            return {"MEMCPY_IN_FUSION_BUFFER"};
        case Phase::memcpy_out_fusion_buffer:
            return {"MEMCPY_OUT_FUSION_BUFFER"};
        case Phase::copy_to_host:
            return {"COPY_TO_HOST"};
        case Phase::copy_to_device:
            return {"COPY_TO_DEVICE"};
        case Phase::shm:
            return {"SHM_", true};
        case Phase::ucx:
            return {"UCX_", true};
        case Phase::shm_ucx:
            return {"SHM_UCX_", true};
        case Phase::nccl:
            return {"NCCL_", true};
        case Phase::init_nccl:
            return {"INIT_NCCL"};
        case Phase::control_round:
            return {"CONTROL_ROUND"};
        case Phase::verify_plan:
            return {"VERIFY_PLAN"};
    }
    return {"UNKNOWN"};
}

}  // namespace

std::string_view kind_name(mpib_kind kind) {
    return entry(kind).name;
}

std::string activity_name(Phase phase, mpib_kind kind) {
    const Words chosen = words(phase);
    std::string name(chosen.text);
    if (chosen.with_operation) name += entry(kind).operation;
    return name;
}

}  // namespace mpi_bridge

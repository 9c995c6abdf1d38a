// SPDX-License-Identifier: Apache-2.0
#include "reduce/reduction.hpp"

#include <atomic>

#include "reduce/datatypes.hpp"
#include "reduce/instruction_sets.hpp"

namespace mpi_bridge {
namespace {

const InstructionSet* fastest() {
    const InstructionSet* best = nullptr;
    for (const InstructionSet& set : instruction_sets()) {
        if (set.runs_here()) best = &set;
    }
    return best;
}

std::atomic<const InstructionSet*>& chosen() {
    static std::atomic<const InstructionSet*> set{fastest()};
    return set;
}

std::string known_names() {
    std::string names;
    for (const InstructionSet& set : instruction_sets()) {
        names += (names.empty() ? "" : ", ") + std::string(set.name);
    }
    return names;
}

}  // namespace

const Reduction* look_up(const KernelTable& table, mpib_datatype datatype, mpib_op op) {
    const auto row = static_cast<unsigned>(datatype);
    const auto column = static_cast<unsigned>(op);
    if (row >= datatype_count || column >= op_count) return nullptr;
    const Reduction& reduction = table.by_datatype[row].by_op[column];
    return reduction.load == nullptr ? nullptr : &reduction;
}

const Reduction* find_reduction(mpib_datatype datatype, mpib_op op) {
    return look_up(chosen().load(std::memory_order_relaxed)->table(), datatype, op);
}

const Reduction* find_portable_reduction(mpib_datatype datatype, mpib_op op) {
    return look_up(portable_table(), datatype, op);
}

std::string why_no_reduction(mpib_datatype datatype, mpib_op op) {
    const Datatype* const known = find_datatype(datatype);
    if (known == nullptr) {
        return datatype_name(datatype) + " is not one of mpib_datatype";
    }
    if (static_cast<unsigned>(op) >= op_count) return op_name(op) + " is not one of mpib_op";
    if (find_portable_reduction(datatype, op) != nullptr) return {};
    if (known->family == Family::floats) {
        return op_name(op) + " is for integers and MPIB_BOOL, not for " + datatype_name(datatype);
    }
    return op_name(op) + " has no meaning for " + datatype_name(datatype) +
           ": use MPIB_AND or MPIB_OR, or convert to numbers first";
}

std::size_t datatype_bytes(mpib_datatype datatype) {
    const Datatype* const known = find_datatype(datatype);
    return known == nullptr ? 0 : known->bytes;
}

Done choose_kernels(std::string_view name) {
    if (name.empty()) {
        chosen() = fastest();
        return {};
    }
    for (const InstructionSet& set : instruction_sets()) {
        if (name != set.name) continue;
        if (!set.runs_here()) {
            return fail(MPIB_ERROR_INVALID_ARGUMENT,
                        "MPI_BRIDGE_KERNELS=" + std::string(name) + " needs a processor with " +
                            set.needs +
                            ", which the processor of this host does not have; unset it to use " +
                            fastest()->name);
        }
        chosen() = &set;
        return {};
    }
    return fail(MPIB_ERROR_INVALID_ARGUMENT,
                "MPI_BRIDGE_KERNELS=\"" + std::string(name) + "\" is none of " + known_names());
}

const char* reduction_instruction_set() {
    return chosen().load()->name;
}

}  // namespace mpi_bridge

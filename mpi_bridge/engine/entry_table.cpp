// SPDX-License-Identifier: Apache-2.0
#include "engine/entry_table.hpp"

namespace mpi_bridge {

EntryTable::Index EntryTable::add(std::string_view name) {
    Index index = 0;
    if (!unused_.empty()) {
        index = unused_.back();
        unused_.pop_back();
    } else {
        if (entries_.size() == most) return none;
        index = static_cast<Index>(entries_.size());
        entries_.emplace_back();
    }
    entries_[index].name = name;
    by_name_.emplace(name, index);
    return index;
}

Entry* EntryTable::find(const Handle& handle) {
    if (handle.entry >= entries_.size()) return nullptr;
    Entry& entry = entries_[handle.entry];
    const bool in_use = entry.stage != Entry::Stage::free;
    const auto generation = Handle::low(entry.generation, Handle::generation_bits);
    return in_use && generation == handle.generation ? &entry : nullptr;
}

Entry* EntryTable::of(Ledger::Id id) {
    if (id >= by_id_.size() || by_id_[id] == none) return nullptr;
    return &entries_[by_id_[id]];
}

void EntryTable::link(Index index, Ledger::Id id) {
    if (by_id_.size() <= id) by_id_.resize(id + 1, none);
    by_id_[id] = index;
    entries_[index].id = id;
}

void EntryTable::unlink(Ledger::Id id) {
    Entry* entry = of(id);
    if (entry == nullptr) return;
    const Index index = by_id_[id];
    by_id_[id] = none;
    entry->id = Ledger::none;
    entry->settled = false;
    entry->announced = false;
    entry->reported = false;
    if (entry->stage == Entry::Stage::free) forget(index);
}

void EntryTable::released(Index index) {
    if (entries_[index].id == Ledger::none) forget(index);
}

void EntryTable::forget(Index index) {
    Entry& entry = entries_[index];
    by_name_.erase(by_name_.find(entry.name));
    const std::uint32_t generation = entry.generation;
    entry = Entry{};
    entry.generation = generation;
    unused_.push_back(index);
}

}  // namespace mpi_bridge

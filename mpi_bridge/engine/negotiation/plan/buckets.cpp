// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/plan/buckets.hpp"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/core.h>

#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

// Packs operations into the fused groups of one bucket or of many.
class Packer {
  public:
    explicit Packer(BucketLimits limits) : limit_(limits.first), later_limit_(limits.others) {}

    // Whether `next` may join the open bucket.
    [[nodiscard]] bool fits(const Sequenced& next) const {
        return open_ != nullptr && can_share_bucket(*open_->descriptor, *next.descriptor) &&
               next.after < open_->serial && bytes_ + bytes_of(*next.descriptor) <= limit_;
    }
    void open(const Sequenced& first) {
        if (open_ != nullptr) limit_ = later_limit_;
        open_ = &first;
        bytes_ = 0;
    }
    void put(const Sequenced& operation, Bucket& bucket, bool new_group) {
        const Descriptor& what = *operation.descriptor;
        if (new_group) {
            FusedGroup& group = bucket.groups.emplace_back();
            group.what = what;
            group.label = fmt::format("{} \"{}\"", name_of(what.kind), operation.name);
        }
        const std::size_t bytes = bytes_of(what);
        FusedGroup& group = bucket.groups.back();
        group.ids.push_back(operation.id);
        group.counts.push_back(what.kind == Kind::allreduce ? elements(what) : 0);
        group.bytes += bytes;
        bucket.bytes += bytes;
        ++bucket.operations;
        bytes_ += bytes;
    }

  private:
    std::size_t limit_;
    std::size_t later_limit_;
    const Sequenced* open_ = nullptr;
    std::size_t bytes_ = 0;
};

// All operations of a named group are submitted before any of them runs. So only their properties
// can keep two of them from sharing a collective, and not the order of their submission.
Bucket arrange_group(const std::vector<const Sequenced*>& group, BucketLimits limits) {
    std::vector<Sequenced> members;
    for (const Sequenced* member : group) {
        members.push_back(*member);
        members.back().after = 0;
        members.back().serial = 1;
    }
    Bucket bucket;
    Packer packer({limits.others, limits.others});
    for (const Sequenced& member : members) {
        const bool joins = packer.fits(member);
        if (!joins) packer.open(member);
        packer.put(member, bucket, !joins);
    }
    return bucket;
}

}  // namespace

std::size_t bytes_of(const Descriptor& descriptor) {
    if (has_free_length(descriptor.kind) || descriptor.kind == Kind::add_process_set ||
        descriptor.kind == Kind::remove_process_set) {
        return 0;
    }
    return elements(descriptor) * datatype_bytes(descriptor.datatype);
}

std::vector<Bucket> arrange(std::span<const Sequenced> sequence, BucketLimits limits) {
    std::map<std::string, std::vector<const Sequenced*>> groups;
    for (const Sequenced& operation : sequence) {
        if (!operation.descriptor->group.empty())
            groups[operation.descriptor->group].push_back(&operation);
    }
    std::vector<Bucket> buckets;
    Packer packer(limits);
    bool last_is_group = false;
    for (const Sequenced& operation : sequence) {
        if (!operation.descriptor->group.empty()) {
            const auto& group = groups[operation.descriptor->group];
            if (group.back() != &operation) continue;
            buckets.push_back(arrange_group(group, limits));
            last_is_group = true;
            continue;
        }
        if (buckets.empty() || last_is_group || !packer.fits(operation)) {
            packer.open(operation);
            buckets.emplace_back();
            packer.put(operation, buckets.back(), true);
        } else {
            packer.put(operation, buckets.back(), false);
        }
        last_is_group = false;
    }
    for (Bucket& bucket : buckets) {
        for (FusedGroup& group : bucket.groups) {
            if (group.ids.size() > 1)
                group.label += fmt::format(" and {} more", group.ids.size() - 1);
        }
    }
    return buckets;
}

}  // namespace mpi_bridge

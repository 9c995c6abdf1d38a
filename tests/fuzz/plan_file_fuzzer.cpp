// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes at all may be in plan.json: its directory is the user's. A plan that is read must come
// out the same after it is written, so that no part of the file is misunderstood without a word.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "plan/plan.hpp"
#include "plan/plan_file.hpp"
#include "tests/fuzz/promise.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using batchai::fuzz::promise;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto plan = batchai::plan::plan_from_json(text);
    if (!plan) {
        promise(!plan.error().what.empty());
        return 0;
    }
    const auto again = batchai::plan::plan_from_json(batchai::plan::to_json(*plan));
    promise(again && *again == *plan);
    // What a job names may be anything, but its place is always inside the mount.
    for (const auto& output : plan->outputs) {
        const auto place = plan->place_of(output.path);
        promise(place.mount == nullptr || place.rest.empty() || place.rest.front() != '/');
        static_cast<void>(plan->host_path(output.path));
    }
    return 0;
}

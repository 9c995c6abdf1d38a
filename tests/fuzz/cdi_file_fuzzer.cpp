// SPDX-License-Identifier: GPL-2.0-or-later
// A CDI file is written by a program of the vendor or by an admin, as JSON or as YAML. What it asks
// for is mounted into containers, and its hooks are run.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "node/devices/cdi.hpp"
#include "tests/fuzz/promise.hpp"

namespace {

using batchai::fuzz::promise;

void check(const batchai::node::DeviceEdits& edits) {
    for (const auto& hook : edits.hooks) {
        promise(!hook.path.empty() && hook.path.front() == '/');
        promise(hook.timeout_seconds >= 0);
    }
    for (const auto& variable : edits.environment) {
        promise(!variable.name.empty() && variable.name.find('=') == std::string::npos);
    }
    auto twice = edits;
    twice.add(edits);
    promise(twice.nodes == edits.nodes && twice.mounts == edits.mounts);
}

void check(std::string_view text, batchai::node::CdiFormat format) {
    const auto spec = batchai::node::parse_cdi(text, format, "/etc/cdi/vendor.json");
    if (!spec) {
        promise(!spec.error().what.empty());
        return;
    }
    promise(spec->kind.find('/') != std::string::npos && !spec->device_class().empty());
    check(spec->edits);
    for (const auto& device : spec->devices) {
        promise(!device.name.empty());
        check(device.edits);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check(text, batchai::node::CdiFormat::json);
    check(text, batchai::node::CdiFormat::yaml);
    return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
// The files that a node sends to `batchai job cp`.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tests/fuzz/promise.hpp"
#include "visit/tar/reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace batchai::visit;
    using batchai::fuzz::promise;
    std::string_view bytes(reinterpret_cast<const char*>(data), size);
    TarReader reader([&] {
        const std::string_view some = bytes.substr(0, 700);
        bytes.remove_prefix(some.size());
        return some;
    });
    while (true) {
        const auto entry = reader.next();
        if (!entry || !*entry) return 0;
        promise((*entry)->mode <= 0777U);
        std::uint64_t at = 0;
        while (true) {
            const auto contents = reader.contents();
            if (!contents) return 0;
            if (!*contents) break;
            // Each part comes after the one before, and none is beyond the size of a file.
            promise((*contents)->at >= at);
            at = (*contents)->at + (*contents)->bytes.size();
            promise((*entry)->kind != TarKind::file || at <= (*entry)->size);
        }
    }
}

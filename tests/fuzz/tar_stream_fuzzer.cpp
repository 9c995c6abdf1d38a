// SPDX-License-Identifier: GPL-2.0-or-later
// The files that a node sends to `batchai job cp`.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/promise.hpp"
#include "visit/tar/reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace batchai::visit;
    using batchai::fuzz::promise;
    std::string_view bytes(reinterpret_cast<const char*>(data), size);
    TarReader reader;
    std::uint64_t left = 0;
    while (!bytes.empty()) {
        const std::size_t step = std::min<std::size_t>(bytes.size(), 700);
        reader.feed(bytes.substr(0, step));
        bytes.remove_prefix(step);
        while (true) {
            const auto found = reader.next();
            if (!found || *found == TarReader::Found::end) return 0;
            if (*found == TarReader::Found::nothing) break;
            if (*found == TarReader::Found::entry) {
                promise(left == 0);
                left = reader.entry().size;
                promise(reader.entry().mode <= 0777U);
                continue;
            }
            // No contents without a size, and no more than that.
            promise(!reader.contents().empty() && reader.contents().size() <= left);
            left -= reader.contents().size();
        }
    }
    return 0;
}

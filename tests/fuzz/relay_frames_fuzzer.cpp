// SPDX-License-Identifier: GPL-2.0-or-later
// What comes through a step's output may be anything: a prolog prints there, too.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/promise.hpp"
#include "visit/relay/frames.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace batchai::visit;
    using batchai::fuzz::promise;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    for (const auto begin : {FrameReader::Begin::at_once, FrameReader::Begin::after_preamble}) {
        FrameReader whole(begin);
        FrameReader in_parts(begin);
        whole.feed(bytes);
        std::size_t fed = 0;
        while (auto frame = whole.next()) {
            promise(frame->payload.size() <= longest_payload);
            // The same frames come, however the stream is cut.
            auto other = in_parts.next();
            while (!other && fed < bytes.size()) {
                in_parts.feed(bytes.substr(fed++, 1));
                other = in_parts.next();
            }
            promise(other == frame);
            if (frame->type == FrameType::state) promise(state_of(*frame) <= PortState::unknown);
            // A frame is read as it is written.
            std::string again;
            append(again, frame->type, frame->channel, frame->payload);
            FrameReader reader(FrameReader::Begin::at_once);
            reader.feed(again);
            promise(reader.next() == frame);
        }
    }
    return 0;
}

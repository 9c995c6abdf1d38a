// SPDX-License-Identifier: GPL-2.0-or-later
// What comes through a step's output may be anything, and so may what a rank writes as its stacks.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/fuzz/promise.hpp"
#include "visit/stacks/answer.hpp"
#include "visit/stacks/groups.hpp"
#include "visit/stacks/python_dump.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace batchai::visit;
    using batchai::fuzz::promise;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    AnswerReader reader;
    reader.feed(bytes);
    std::vector<NodeStacks> nodes;
    if (auto answer = reader.answer_of("n1")) {
        // An answer is read as it is written.
        answer->node = "n1";
        AnswerReader again;
        again.feed(answer_lines(*answer));
        promise(again.complete() == 1 && again.answer_of("n1").has_value());
        nodes.push_back(std::move(*answer));
    }
    JobProcess process;
    process.python.push_back({.name = {}, .main = true, .frames = frames_in_dump(bytes)});
    nodes.push_back({.node = "n2", .processes = {process}});
    promise(!stacks_text(stack_groups(nodes)).empty());
    return 0;
}

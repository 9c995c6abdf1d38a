// SPDX-License-Identifier: GPL-2.0-or-later
// Runs a fuzz target on the files that the command line names. So any compiler can build it, and
// what a fuzzer has once found is tested with everything else.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        std::ifstream file(argv[i], std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        if (!file.is_open() || text.empty()) {
            std::fprintf(stderr, "%s: cannot be read, or is empty\n", argv[i]);
            return 1;
        }
        std::printf("%s\n", argv[i]);
        static_cast<void>(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()),
                                                 text.size()));
    }
    return argc > 1 ? 0 : 1;
}

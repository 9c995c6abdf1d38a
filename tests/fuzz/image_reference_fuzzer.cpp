// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may be the name of an image, and any text the serverUrl. What is accepted becomes an
// argument of skopeo and a part of paths.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "image/reference.hpp"
#include "tests/fuzz/promise.hpp"

namespace {

using batchai::fuzz::promise;

bool is_plain(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\'; });
}

}  // namespace

// The first line is the image, and the second the serverUrl.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::size_t end = text.find('\n');
    std::optional<std::string> server_url;
    if (end != std::string_view::npos) server_url = text.substr(end + 1);
    const auto reference = batchai::image::parse(text.substr(0, end), server_url);
    if (!reference) {
        promise(!reference.error().what.empty());
        return 0;
    }
    if (reference->kind != batchai::image::Kind::registry) {
        promise(!reference->path.empty());
        return 0;
    }
    promise(!reference->registry.empty() && !reference->repository.empty());
    promise(is_plain(reference->registry) && is_plain(reference->repository) &&
            is_plain(reference->tag) && is_plain(reference->digest));
    promise(reference->registry.front() != '-' && reference->repository.front() != '-');
    // The full name means the same image.
    const auto again = batchai::image::parse(reference->registry_name());
    auto expected = *reference;
    expected.plain_http = false;
    promise(again.has_value() && *again == expected);
    return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes at all may be a job file: reading them, showing what is wrong and echoing what is right
// must neither crash nor break the promises of the headers. A broken promise aborts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "base/json.hpp"
#include "job/parse.hpp"
#include "job/schema/storage_account.hpp"
#include "job/syntax/utf8.hpp"
#include "job/to_json.hpp"
#include "tests/fuzz/promise.hpp"

namespace {

using namespace batchai::job;
using batchai::fuzz::promise;

bool in_order(const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.position.line, a.position.column) <
           std::tie(b.position.line, b.position.column);
}

// Nothing but printable characters, tabs and line feeds.
bool safe_to_show(std::string_view text) {
    for (std::size_t offset = 0; offset < text.size();) {
        const std::size_t length = utf8_sequence(text, offset);
        if (length == 0) return false;
        const char32_t c = utf8_decode(text.substr(offset, length));
        if (is_unprintable(c) && c != '\n' && c != '\t') return false;
        offset += length;
    }
    return true;
}

void check_spec(JobSpec& spec, const PositionTable& positions) {
    promise(spec.node_count >= 1);
    for (const AzureFileShare& share : spec.mount_volumes.azure_file_shares) {
        promise(!share.relative_mount_path.empty() && share.relative_mount_path.front() != '/');
        promise(("/" + share.relative_mount_path + "/").find("/../") == std::string::npos);
    }
    promise(to_json(spec).is_object());
    const bool applied =
        apply_storage_account(spec, StorageAccount{"account", "key"}, positions).empty();
    for (const AzureFileShare& share : spec.mount_volumes.azure_file_shares) {
        promise(!applied || share.account_name.has_value());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(data, data + size);
    Parsed parsed = parse(text);
    promise(parsed.spec.has_value() != has_error(parsed.diagnostics));
    promise(std::is_sorted(parsed.diagnostics.begin(), parsed.diagnostics.end(), in_order));
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
    for (const Diagnostic& diagnostic : parsed.diagnostics) {
        promise(diagnostic.position.line >= 1 && diagnostic.position.line <= lines);
        promise(diagnostic.position.column >= 1 && diagnostic.position.length >= 1);
    }
    promise(safe_to_show(render_all(parsed.diagnostics, "job.json", text)));
    const auto shown =
        batchai::base::parse_json(diagnostics_json(parsed.diagnostics, "job.json"), "diagnostics");
    promise(shown && shown->array() != nullptr &&
            shown->array()->size() == parsed.diagnostics.size());
    if (parsed.spec) check_spec(*parsed.spec, parsed.positions);
    return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/snapshot.hpp"

#include <string_view>
#include <tuple>

#include "base/file.hpp"
#include "base/record.hpp"

namespace batchai::record {

namespace {

constexpr std::string_view snapshot_schema = "batchai-snapshot/v1";

}  // namespace

base::Result<void> write_snapshot(const JobFiles& files, const Snapshot& snapshot) {
    return base::write_atomically(files.snapshot_record(),
                                  base::to_record(snapshot, snapshot_schema), 0600);
}

base::Result<std::optional<Snapshot>> read_snapshot(const JobFiles& files) {
    const auto path = files.snapshot_record();
    const auto text = base::read_file(path);
    if (!text && text.error().exit_code == base::ExitCode::not_found)
        return std::optional<Snapshot>();
    if (!text) return tl::unexpected(text.error());
    auto snapshot = base::from_record<Snapshot>(*text, snapshot_schema);
    if (!snapshot) {
        snapshot.error().where = path.string();
        return tl::unexpected(snapshot.error());
    }
    return std::optional<Snapshot>(std::move(*snapshot));
}

base::Value to_value(const Snapshot& snapshot) {
    return base::to_value(snapshot);
}

}  // namespace batchai::record

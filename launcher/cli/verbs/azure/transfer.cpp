// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/azure/transfer.hpp"

#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/file.hpp"
#include "cli/tree/builder.hpp"

namespace batchai::cli {

namespace fs = std::filesystem;

storage::Copying Transfer::copying(const storage::Source& source, const std::string& name) {
    progress_.begin(name, source.size());
    return {.progress = [this](std::int64_t done) { progress_.show(done); }, .signals = signals_};
}

base::Result<void> Transfer::upload(const std::string& local, const storage::Share& share,
                                    const std::string& path) {
    const auto source = TRY(storage::open_source(local));
    return share.put(source, path, copying(source, path));
}

base::Result<void> Transfer::download(const storage::Share& share, const std::string& path,
                                      const std::string& local, const storage::Range& range) {
    auto file = TRY(share.open_file(path));
    const auto source = TRY(storage::part_of(std::move(file), range));
    const fs::path target(local);
    // The copy would take the place of a device or a FIFO, or of a link to one.
    std::error_code code;
    const auto type = fs::status(target, code).type();
    if (type == fs::file_type::none) return base::system_error("examine", local, code.value());
    if (type != fs::file_type::regular && type != fs::file_type::not_found &&
        type != fs::file_type::directory)
        return base::fail("is there already and is not a regular file", local,
                          "choose another name", base::ExitCode::usage);
    const std::string parent = target.has_parent_path() ? target.parent_path().string() : ".";
    const base::FileDescriptor directory(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) return base::system_error("enter the directory", parent);
    return storage::copy_to(source, directory.get(), target.filename().string(), local,
                            copying(source, path));
}

void add_range_options(Parser leaf, storage::Range& range) {
    add_optional(leaf, "--start-range", range.first, "First byte to copy, counted from 0")
        .type_name("NUMBER")
        .non_negative();
    add_optional(leaf, "--end-range", range.last, "Last byte to copy")
        .type_name("NUMBER")
        .non_negative();
}

std::string download_path(const std::optional<std::string>& destination, const std::string& name) {
    if (!destination || destination->empty()) return name;
    std::error_code code;
    if (destination->ends_with('/') || fs::is_directory(*destination, code))
        return (fs::path(*destination) / name).string();
    return *destination;
}

}  // namespace batchai::cli

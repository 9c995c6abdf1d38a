// SPDX-License-Identifier: Apache-2.0
#include "trace/record_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "trace/quoting.hpp"

namespace mpi_bridge {

void write_record(const std::string& path,
                  const std::vector<std::pair<std::string_view, std::string_view>>& members) {
    std::string text;
    for (const auto& [key, value] : members) {
        text += text.empty() ? "{" : ", ";
        append_json_string(text, key);
        text += ": ";
        append_json_string(text, value);
    }
    text += "}\n";
    // Not a FileDescriptor: closing one keeps the program from forking until the file system
    // answers.
    const int file =
        open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (write(file, text.data(), text.size()) < 0) {
        // There is no other way to report this.
    }
    close(file);
}

}  // namespace mpi_bridge

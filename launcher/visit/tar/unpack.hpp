// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "visit/tar/reader.hpp"

namespace batchai::visit {

// Writes the files of a tar stream below a directory, and nowhere else: the stream is not trusted.
// Every entry must be `top` of the stream or below it, and gets the name `name` instead. A name
// with "..", a link, a device and anything else that is not a file or directory is passed over with
// a remark. Links that are in the way are not followed. A file gets its name once it is complete;
// what was not complete is removed by the destructor.
class Unpacker {
  public:
    using Remark = std::function<void(const std::string& text)>;

    // The directory in `into` must stay as it is as long as this object exists.
    Unpacker(base::Root into, std::string top, std::string name, Remark remark);
    Unpacker(const Unpacker&) = delete;
    Unpacker& operator=(const Unpacker&) = delete;
    ~Unpacker();

    // Takes more of the stream. An error ends the copy: the stream cannot be understood, or a file
    // cannot be written.
    [[nodiscard]] base::Result<void> feed(std::string_view bytes);
    // Called at the end of the stream. It is an error if it is not complete.
    [[nodiscard]] base::Result<void> finish();

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t files() const { return files_; }
    [[nodiscard]] bool passed_over() const { return passed_over_; }

  private:
    struct OpenFile {
        base::FileDescriptor directory;
        base::FileDescriptor file;
        std::string temporary;
        std::string name;
        std::string path;  // for messages
        std::uint64_t left = 0;
        unsigned int mode = 0;
    };

    [[nodiscard]] base::Result<void> begin(const TarEntry& entry);
    [[nodiscard]] base::Result<void> begin_file(const TarEntry& entry, const std::string& path);
    [[nodiscard]] base::Result<void> write(std::string_view bytes);
    [[nodiscard]] base::Result<void> complete();
    // Returns the path of an entry below the directory; nothing if it may not be there.
    [[nodiscard]] std::optional<std::string> path_of(const std::string& name) const;
    void pass_over(const std::string& name, std::string_view why);

    base::Root into_;
    std::string top_;
    std::string name_;
    Remark remark_;
    TarReader reader_;
    std::optional<OpenFile> open_;
    bool ended_ = false;
    bool passed_over_ = false;
    std::uint64_t bytes_ = 0;
    std::uint64_t files_ = 0;
};

}  // namespace batchai::visit

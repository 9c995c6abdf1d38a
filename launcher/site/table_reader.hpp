// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

struct lua_State;

namespace batchai::site {

// A Lua 5.4 state that can only compute. It has what Sandbox.cmake lists of string, table, math and
// the base library; it cannot access files, start processes or load code. Its instructions and
// memory are bounded, so that a wrong file causes an error and not a hang.
class SandboxedLua {
  public:
    SandboxedLua();

    // Runs the text and leaves the one value that it returns on top of the stack.
    [[nodiscard]] base::Result<void> run(std::string_view text, const std::string& name);

    [[nodiscard]] lua_State* state() const { return state_.get(); }

  private:
    struct Close {
        void operator()(lua_State* state) const;
    };
    struct Budget {
        std::size_t used = 0;
        std::size_t limit = 0;
    };
    static void* allocate(void* budget, void* block, std::size_t old_size, std::size_t new_size);

    std::unique_ptr<Budget> budget_;
    std::unique_ptr<lua_State, Close> state_;
};

}  // namespace batchai::site

namespace batchai::site {

// Reads one Lua table key by key. finish() refuses the keys that have not been read. The first
// fault is kept, and every later call does nothing. The table stays on the Lua stack, at `index`
// (absolute), while the reader lives. Never raises a Lua error.
class TableReader {
  public:
    // `path` is the table's name in messages: "vm_sizes.STANDARD_NC6"; empty for the outermost
    // table.
    TableReader(lua_State* state, int index, std::string path,
                std::optional<base::Error>& first_fault)
        : state_(state), index_(index), path_(std::move(path)), fault_(first_fault) {}

    // The following functions leave the value as it is if the key is absent.
    void text(std::string_view key, std::string& value);
    // The same for a number as well, which becomes its shortest text: 3 and 3.0 are "3".
    void text_or_number(std::string_view key, std::string& value);
    void flag(std::string_view key, bool& value);
    void count(std::string_view key, int& value);                 // an integer from 0 to 1000000
    void limit(std::string_view key, std::optional<int>& value);  // an integer from 1 to 1000000
    void words(std::string_view key, std::vector<std::string>& value);
    // The value is an absolute path without "." and ".." components. For directory() there must be
    // a path, from the key or as the default. For the others the path may be absent or empty. For
    // directory_of_user() it may have one "%u", which stands for the user's name. For
    // directory_pattern() it must have one "%s", which stands for the share or container.
    void directory(std::string_view key, std::string& value);
    void optional_directory(std::string_view key, std::string& value);
    void directory_of_user(std::string_view key, std::string& value);
    void directory_pattern(std::string_view key, std::string& value);
    // Reads a table of strings and numbers as pairs of key and text, sorted by key.
    void pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>& value);
    // Calls `read` for the table at `key`, if there is one.
    void inside(std::string_view key, const std::function<void(TableReader& entry)>& read);
    // Calls `read` for each entry of a table of tables, sorted by name.
    void each(std::string_view key,
              const std::function<void(const std::string& name, TableReader& entry)>& read);

    // Reports a fault that only the caller can detect.
    void refuse(std::string_view key, std::string what, std::string hint = {}) {
        fail(key, std::move(what), std::move(hint));
    }

    // Refuses keys that have not been read, and suggests a similar key.
    void finish();

  private:
    // Pushes the value and returns true if it exists and has the wanted Lua type.
    bool push(std::string_view key, int type, std::string_view wanted);
    void fail(std::string_view key, std::string what, std::string hint = {});
    void absolute_path(std::string_view key, std::string& value);
    [[nodiscard]] std::string name_of(std::string_view key) const;
    // The list on top of the stack, at `key`, may have no other keys than 1 to the length.
    void refuse_other_keys(std::string_view key, long long length);
    // Returns the table's keys in order. A key that is not a string is an error.
    std::vector<std::string> keys(int table, std::string_view of);

    lua_State* state_;
    int index_;
    std::string path_;
    std::optional<base::Error>& fault_;
    std::vector<std::string> known_;
};

}  // namespace batchai::site

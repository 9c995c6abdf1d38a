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

// A Lua 5.4 state that can compute and nothing else: string, table, math and the harmless part of
// the base library; no files, no processes, no loading of code; bounded in instructions and
// memory, so that a wrong file is an error and not a hang.
class SandboxedLua {
  public:
    SandboxedLua();

    // Runs the text and leaves the one value that it returns on the stack's top.
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

struct lua_State;

namespace batchai::site {

// Reads one Lua table key by key, and at the end refuses the keys that nobody asked for. The first
// fault is kept and every later call does nothing. The table stays on the Lua stack, at `index`
// (absolute), while the reader lives. Never raises a Lua error.
class TableReader {
  public:
    // `path` is how messages call the table: "vm_sizes.STANDARD_NC6", empty for the outermost.
    TableReader(lua_State* state, int index, std::string path,
                std::optional<base::Error>& first_fault)
        : state_(state), index_(index), path_(std::move(path)), fault_(first_fault) {}

    // An absent key leaves the value as it is.
    void text(std::string_view key, std::string& value);
    void flag(std::string_view key, bool& value);
    void count(std::string_view key, int& value);  // an integer from 0 up
    void words(std::string_view key, std::vector<std::string>& value);
    // An absolute path without "." and ".." components. A plain one must be there, an optional one
    // may be absent or empty; a user's may be, too, and may have one "%u", for the user's name; a
    // pattern may be absent and has one "%s", for the share or container.
    void directory(std::string_view key, std::string& value);
    void optional_directory(std::string_view key, std::string& value);
    void directory_of_user(std::string_view key, std::string& value);
    void directory_pattern(std::string_view key, std::string& value);
    // A table of text by text, in the order of its keys.
    void pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>& value);
    // A table of tables by name.
    void each(std::string_view key,
              const std::function<void(const std::string& name, TableReader& entry)>& read);

    // Reports a fault that only the caller can see.
    void refuse(std::string_view key, std::string what, std::string hint = {}) {
        fail(key, std::move(what), std::move(hint));
    }

    // Refuses unknown keys, with a did-you-mean.
    void finish();

  private:
    // Pushes the value and is true when it is there and of the wanted Lua type.
    bool push(std::string_view key, int type, std::string_view wanted);
    void fail(std::string_view key, std::string what, std::string hint = {});
    void absolute_path(std::string_view key, std::string& value);
    [[nodiscard]] std::string name_of(std::string_view key) const;
    // The names of the table's keys in order; a key that is no text is a fault.
    std::vector<std::string> keys(int table, std::string_view of);

    lua_State* state_;
    int index_;
    std::string path_;
    std::optional<base::Error>& fault_;
    std::vector<std::string> known_;
};

}  // namespace batchai::site

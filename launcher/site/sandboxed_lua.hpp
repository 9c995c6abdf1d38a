// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

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

// SPDX-License-Identifier: GPL-2.0-or-later
#include "site/sandboxed_lua.hpp"

#include <cstdlib>
#include <limits>

extern "C" {
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
}

namespace batchai::site {

namespace {

constexpr int instruction_limit = 10'000'000;
constexpr std::size_t memory_limit = 32UL << 20U;

void stop(lua_State* state, lua_Debug*) {
    luaL_error(state, "runs for more than %d instructions", instruction_limit);
}

int open_libraries(lua_State* state) {
    luaL_requiref(state, "_G", luaopen_base, 1);
    luaL_requiref(state, "string", luaopen_string, 1);
    luaL_requiref(state, "table", luaopen_table, 1);
    luaL_requiref(state, "math", luaopen_math, 1);
    for (const char* name : {"dofile", "loadfile", "load", "require", "print", "collectgarbage"}) {
        lua_pushnil(state);
        lua_setglobal(state, name);
    }
    return 0;
}

}  // namespace

void SandboxedLua::Close::operator()(lua_State* state) const {
    lua_close(state);
}

void* SandboxedLua::allocate(void* budget, void* block, std::size_t old_size,
                             std::size_t new_size) {
    auto& bounds = *static_cast<Budget*>(budget);
    const std::size_t held = block == nullptr ? 0 : old_size;  // else old_size is a type tag
    if (new_size == 0) {
        std::free(block);
        bounds.used -= held;
        return nullptr;
    }
    if (bounds.used - held + new_size > bounds.limit) return nullptr;
    void* moved = std::realloc(block, new_size);
    if (moved != nullptr) bounds.used += new_size - held;
    return moved;
}

SandboxedLua::SandboxedLua() : budget_(std::make_unique<Budget>()), state_(nullptr) {
    budget_->limit = memory_limit;
    state_.reset(lua_newstate(allocate, budget_.get()));
}

base::Result<void> SandboxedLua::run(std::string_view text, const std::string& name) {
    const auto failed = [&](std::string what) {
        return base::fail(std::move(what), name, {}, base::ExitCode::bad_job_file);
    };
    lua_State* lua = state();
    if (lua == nullptr) return failed("no memory for Lua");
    lua_pushcfunction(lua, open_libraries);
    int code = lua_pcall(lua, 0, 0, 0);
    // "=" keeps the name as it is in Lua's messages; "t" refuses byte code, which can crash Lua.
    const std::string chunk_name = "=" + name;
    if (code == LUA_OK)
        code = luaL_loadbufferx(lua, text.data(), text.size(), chunk_name.c_str(), "t");
    if (code == LUA_OK) {
        lua_sethook(lua, stop, LUA_MASKCOUNT, instruction_limit);
        code = lua_pcall(lua, 0, 1, 0);
        lua_sethook(lua, nullptr, 0, 0);
    }
    // What follows reads values outside of a protected call and must not run out of memory.
    budget_->limit = std::numeric_limits<std::size_t>::max();
    if (code == LUA_OK) return {};
    std::string message = "unknown error";
    if (lua_type(lua, -1) == LUA_TSTRING) message = lua_tostring(lua, -1);
    // Lua puts "site.lua:3: " before it; the error's place says the file already.
    if (message.starts_with(name + ":")) message = "line " + message.substr(name.size() + 1);
    return failed(std::move(message));
}

}  // namespace batchai::site

// SPDX-License-Identifier: GPL-2.0-or-later
//
// The Lua module that cli_filter.lua loads into sbatch, srun and salloc: says which allocation a
// job file asks for. It asks batchai-allocation, a process of its own, because site.lua is read
// with another Lua than Slurm's, and two of them in one process would take each other's functions.

#include <exception>
#include <string>

#include "base/process.hpp"
#include "base/text.hpp"

extern "C" {
#include <lauxlib.h>
#include <lua.h>
}

namespace {

using batchai::base::Arguments;

void push_failure(lua_State* state, const std::string& text) {
    lua_pushnil(state);
    lua_pushlstring(state, text.data(), text.size());
}

// Lines "option=value", as batchai-allocation prints them.
void push_settings(lua_State* state, const std::string& lines) {
    lua_newtable(state);
    for (const std::string_view line : batchai::base::split(lines, '\n')) {
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos) continue;
        lua_pushlstring(state, line.data(), equals);
        lua_pushlstring(state, line.data() + equals + 1, line.size() - equals - 1);
        lua_settable(state, -3);
    }
}

// allocation(path, ignore_container, image) → table of option values, or nil and a text that ends
// with a newline. `image` is that of --job-image, or nil. No exception leaves it.
int allocation(lua_State* state) {
    const char* path = luaL_checkstring(state, 1);
    try {
        Arguments arguments{BATCHAI_ALLOCATION, "--job-json", path};
        if (lua_toboolean(state, 2) != 0) arguments.emplace_back("--ignore-container");
        if (const char* const image = lua_tostring(state, 3))
            arguments.push_back(std::string("--job-image=") + image);
        const auto done = batchai::base::run(arguments);
        if (done && done->exit_code == 0) {
            push_settings(state, done->standard_output);
            return 1;
        }
        push_failure(state,
                     done ? done->standard_error : "batchai: error: " + done.error().text() + "\n");
    } catch (const std::exception& error) {
        push_failure(state, std::string("batchai: error: ") + error.what() + "\n");
    }
    return 2;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int luaopen_batchai_cli_filter(lua_State* state);

extern "C" int luaopen_batchai_cli_filter(lua_State* state) {
    lua_createtable(state, 0, 1);
    lua_pushcfunction(state, allocation);
    lua_setfield(state, -2, "allocation");
    return 1;
}

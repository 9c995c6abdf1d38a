# SPDX-License-Identifier: GPL-2.0-or-later
# What site.lua may use and how much. The launcher (sandboxed_lua.cpp) and slurmctld
# (lua/job_submit.lua.in) read the same file, with different versions of Lua, so each name exists in
# Lua 5.1 and in all later versions. Not among them is what could get around the limits or reach
# outside: pcall catches the error of a limit, metatables have finalizers, and getmetatable("")
# gives the string library of the whole program.
set(BATCHAI_SITE_GLOBALS
    assert
    error
    ipairs
    next
    pairs
    rawequal
    rawget
    rawset
    select
    tonumber
    tostring
    type
    math
    string
    table)
# Functions of these libraries that site.lua does not have. The result of a file must not change from
# one run to the next, and in Lua 5.1 the random numbers are those of the whole process.
set(BATCHAI_SITE_WITHHELD string.dump math.random math.randomseed)
set(BATCHAI_SITE_INSTRUCTIONS 10000000)
set(BATCHAI_SITE_MEBIBYTES 32)
set(BATCHAI_SITE_FILE_BYTES 1048576)

# The lists as C++ and Lua write them.
foreach(list BATCHAI_SITE_GLOBALS BATCHAI_SITE_WITHHELD)
  list(TRANSFORM ${list} REPLACE "(.+)" "\"\\1\"" OUTPUT_VARIABLE ${list}_QUOTED)
  list(JOIN ${list}_QUOTED ", " ${list}_QUOTED)
endforeach()

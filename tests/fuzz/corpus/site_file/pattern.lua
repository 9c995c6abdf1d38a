return { location = string.rep("a", 30):match(("a*"):rep(30) .. "b") }

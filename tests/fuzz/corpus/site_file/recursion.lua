local function again(n) return again(n + 1) + 1 end
return again(0)

-- KEYS 1 the value  ARGV 1-3 now, channel, sender  4 expected value  5 new value  6 ttl (ms)  Returns 1, or 0
-- include: parts/now.lua
-- include: parts/value.lua
local now = wf_now(ARGV[1])
local there = wf_value(KEYS[1], now)
-- A repeat finds its own value.
if not there or (there ~= ARGV[4] and there ~= ARGV[5]) then return 0 end
wf_set_value(KEYS[1], ARGV[5], now, tonumber(ARGV[6]))
return 1

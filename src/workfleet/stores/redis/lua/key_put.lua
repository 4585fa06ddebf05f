-- KEYS 1 the value  ARGV 1-3 now, channel, sender  4 value  5 ttl (ms)  Returns the value that is there, or nil
-- include: parts/now.lua
-- include: parts/value.lua
local now = wf_now(ARGV[1])
local there = wf_value(KEYS[1], now)
if not there then wf_set_value(KEYS[1], ARGV[4], now, tonumber(ARGV[5])) end
return there

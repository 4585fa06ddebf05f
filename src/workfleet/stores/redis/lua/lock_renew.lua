-- KEYS see parts/lock.lua  ARGV 1-3 now, channel, sender  4 name  5 owner  6 ttl (ms)  Returns {fence, end} or nil
-- include: parts/now.lua
-- include: parts/lock.lua
local now = wf_now(ARGV[1])
local holder, fence = wf_lock(ARGV[4], now)
if holder ~= ARGV[5] then return nil end
local ends = string.format('%.0f', now + ARGV[6])
redis.call('ZADD', KEYS[1], ends, ARGV[4])
return { fence, ends }

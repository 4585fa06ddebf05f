-- KEYS see parts/lock.lua  ARGV 1-3 now, channel, sender  4 name  5 owner (none: whoever holds it)  Returns 1, or 0
-- include: parts/now.lua
-- include: parts/lock.lua
local holder = wf_lock(ARGV[4], wf_now(ARGV[1]))
if not holder or (ARGV[5] and ARGV[5] ~= holder) then return 0 end
redis.call('HDEL', KEYS[2], ARGV[4])
return redis.call('ZREM', KEYS[1], ARGV[4])

-- KEYS see parts/schedule.lua  ARGV 1-3 now, channel, sender  4 name  Returns {topics to wake, 1 or 0}
-- include: parts/wake.lua
-- include: parts/schedule.lua
local removed = redis.call('SREM', KEYS[1], ARGV[4])
redis.call('ZREM', KEYS[4], ARGV[4])
redis.call('DEL', KEYS[2] .. ARGV[4] .. ':s')
if removed == 1 then wf_schedules_changed() end
return { wf_woken(ARGV[2], ARGV[3]), removed }

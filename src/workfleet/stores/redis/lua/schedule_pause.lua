-- KEYS see parts/schedule.lua  ARGV 1-3 now, channel, sender  4 name  5 paused (0 or 1)  Returns {topics to wake, 1 or 0}
-- include: parts/wake.lua
-- include: parts/schedule.lua
if redis.call('SISMEMBER', KEYS[1], ARGV[4]) == 0 then return { {}, 0 } end
redis.call('HSET', KEYS[2] .. ARGV[4] .. ':s', 'paused', ARGV[5])
wf_schedule_line(ARGV[4], '')
wf_schedules_changed()
return { wf_woken(ARGV[2], ARGV[3]), 1 }

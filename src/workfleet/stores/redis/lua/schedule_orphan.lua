-- KEYS see parts/schedule.lua  ARGV 1-3 now, channel, sender  4- names that no code defines any more
-- Returns {topics to wake, 1}
-- include: parts/wake.lua
-- include: parts/schedule.lua
for i = 4, #ARGV do
  local key = KEYS[2] .. ARGV[i] .. ':s'
  if redis.call('HGET', key, 'from_code') == '1' then
    redis.call('HSET', key, 'orphaned', 1)
    wf_schedule_line(ARGV[i], '')
    wf_schedules_changed()
  end
end
return { wf_woken(ARGV[2], ARGV[3]), 1 }

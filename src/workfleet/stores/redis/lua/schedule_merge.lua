-- Brings a batch of what the code defines into the store.
-- KEYS see parts/schedule.lua  ARGV 1-3 now, channel, sender  then of each: name, definition, fingerprint, enabled,
-- from_code, next due, held until (ms or empty)  Returns {topics to wake, name and definition of each unchanged one}
-- include: parts/wake.lua
-- include: parts/schedule.lua
local unchanged = {}
for i = 4, #ARGV, 7 do
  local name = ARGV[i]
  local key = KEYS[2] .. name .. ':s'
  local there = redis.call('HMGET', key, 'fingerprint', 'from_code', 'orphaned', 'definition')
  if there[1] ~= ARGV[i + 2] or there[2] ~= '1' then
    wf_schedule_set(name, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
  else
    unchanged[#unchanged + 1], unchanged[#unchanged + 2] = name, there[4]
    if there[3] == '1' then
      redis.call('HSET', key, 'orphaned', 0)
      wf_schedule_line(name, '')
      wf_schedules_changed()
    end
  end
end
return { wf_woken(ARGV[2], ARGV[3]), unchanged }

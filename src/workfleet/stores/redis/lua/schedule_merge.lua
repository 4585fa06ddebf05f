-- KEYS see parts/schedule.lua  ARGV 1-3 now, channel, sender  then of each that code defines: name, definition,
-- fingerprint, enabled, from_code, next due (ms or empty)  Returns {topics to wake, name and hash of each}
-- include: parts/wake.lua
-- include: parts/schedule.lua
local defined = {}
for i = 4, #ARGV, 6 do
  local name = ARGV[i]
  local key = KEYS[2] .. name .. ':s'
  defined[name] = true
  local there = redis.call('HMGET', key, 'fingerprint', 'from_code', 'orphaned')
  if there[1] ~= ARGV[i + 2] or there[2] ~= '1' then
    wf_schedule_set(name, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
  elseif there[3] == '1' then
    redis.call('HSET', key, 'orphaned', 0)
    wf_schedules_changed()
  end
end
for _, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local key = KEYS[2] .. name .. ':s'
  local there = redis.call('HMGET', key, 'from_code', 'orphaned')
  if not defined[name] and there[1] == '1' and there[2] ~= '1' then
    redis.call('HSET', key, 'orphaned', 1)
    wf_schedules_changed()
  end
end
return { wf_woken(ARGV[2], ARGV[3]), wf_schedules() }

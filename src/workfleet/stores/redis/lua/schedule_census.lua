-- Goes through some schedules, and gives a place in KEYS 4 to live ones that a program without places has added.
-- KEYS see parts/schedule.lua  ARGV 1-3 now, channel, sender  4 cursor ("0" begins)  5 about how many
-- Returns the next cursor ("0": that was all), the names of those of code that are not orphaned, and of the orphaned
-- include: parts/wake.lua
-- include: parts/schedule.lua
local page = redis.call('SSCAN', KEYS[1], ARGV[4], 'COUNT', ARGV[5])
local here, orphaned = {}, {}
for _, name in ipairs(page[2]) do
  local there = redis.call('HMGET', KEYS[2] .. name .. ':s', 'from_code', 'orphaned')
  if there[2] == '1' then
    orphaned[#orphaned + 1] = name
  else
    if there[1] == '1' then here[#here + 1] = name end
    if not redis.call('ZSCORE', KEYS[4], name) then wf_schedule_line(name, '') end
  end
end
return { page[1], here, orphaned }

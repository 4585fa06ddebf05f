-- KEYS see parts/schedule.lua  ARGV 1 the time  4 cursor ("0" begins)  5 about how many
-- Returns the next cursor ("0": that was all), and name, hash and score of each
-- include: parts/wake.lua
-- include: parts/schedule.lua
local page = redis.call('SSCAN', KEYS[1], ARGV[4], 'COUNT', ARGV[5])
local found = {}
for i, name in ipairs(page[2]) do found[i] = wf_schedule(name) end
return { page[1], found }

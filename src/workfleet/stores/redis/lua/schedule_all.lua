-- KEYS see parts/schedule.lua  ARGV 1 the time  Returns the time, and name and hash of each
-- include: parts/now.lua
-- include: parts/wake.lua
-- include: parts/schedule.lua
return { wf_now(ARGV[1]), wf_schedules() }

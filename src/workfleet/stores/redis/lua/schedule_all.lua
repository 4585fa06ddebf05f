-- KEYS see parts/schedule.lua  Returns name and hash of each
-- include: parts/wake.lua
-- include: parts/schedule.lua
return wf_schedules()

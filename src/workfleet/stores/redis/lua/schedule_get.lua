-- KEYS see parts/schedule.lua  ARGV 4- names  Returns name, hash and score of each; an empty hash where there is none
-- include: parts/wake.lua
-- include: parts/schedule.lua
local found = {}
for i = 4, #ARGV do found[#found + 1] = wf_schedule(ARGV[i]) end
return found

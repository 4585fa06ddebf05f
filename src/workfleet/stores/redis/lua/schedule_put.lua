-- KEYS see parts/schedule.lua  ARGV 1-3 now, channel, sender  4 replace (0 or 1)  5- name, definition, fingerprint,
-- enabled, from_code, next due, held until (ms or empty)  Returns {topics to wake, 1 or 0}
-- include: parts/wake.lua
-- include: parts/schedule.lua
if ARGV[4] == '0' and redis.call('SISMEMBER', KEYS[1], ARGV[5]) == 1 then return { {}, 0 } end
wf_schedule_set(ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11])
return { wf_woken(ARGV[2], ARGV[3]), 1 }

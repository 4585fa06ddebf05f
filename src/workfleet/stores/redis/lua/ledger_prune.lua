-- KEYS see ledger_record.lua  ARGV 1-3 now, channel, sender  4 age (ms)  5 of how many schedules at most
-- Returns how many rows were deleted
-- include: parts/now.lua
-- include: parts/ledger.lua
local before, deleted = wf_now(ARGV[1]) - tonumber(ARGV[4]), 0
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', before), 'LIMIT', 0, ARGV[5])
for _, key in ipairs(old) do
  deleted = deleted + wf_ledger_trim(key, before)
end
return deleted

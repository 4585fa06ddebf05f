-- Hands out live schedules, the first ones first, and holds them.
-- KEYS see parts/schedule.lua  ARGV 1-3 now, channel, sender  4 limit  5 how far ahead (ms)  6 held for (ms, after that)
-- Returns the time, name, hash and score of each, and the score of the first of the others (or empty)
-- include: parts/now.lua
-- include: parts/wake.lua
-- include: parts/schedule.lua
local now = wf_now(ARGV[1])
local till = now + tonumber(ARGV[5])
local held = string.format('%.0f', till + tonumber(ARGV[6]))
local found, nearest = {}, nil
local names = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', till), 'LIMIT', 0, ARGV[4])
local after = redis.call('ZRANGE', KEYS[4], #names, #names, 'WITHSCORES')[2]
for _, name in ipairs(names) do
  local due = redis.call('HGET', KEYS[2] .. name .. ':s', 'next_due_ms')
  if not due or tonumber(due) > till then
    -- Its place is an old one: a program that knows nothing of places has fired or changed it.
    wf_schedule_line(name, '')
    if due and (not nearest or tonumber(due) < nearest) then nearest = tonumber(due) end
  else
    wf_schedule_line(name, held)
    local handed = wf_schedule(name)
    if handed[3] ~= '' then found[#found + 1] = handed end
  end
end
if nearest and (not after or nearest < tonumber(after)) then after = string.format('%.0f', nearest) end
return { now, found, after or '' }

-- KEYS see parts/lock.lua  ARGV 1-3 now, channel, sender  4 name  5 owner  6 ttl (ms)
-- Returns {owner, fence, end}: of the caller's grant, or of who holds it
-- include: parts/now.lua
-- include: parts/lock.lua
local now, name, owner = wf_now(ARGV[1]), ARGV[4], ARGV[5]
local holder, fence, ends = wf_lock(name, now)
if holder and holder ~= owner then return { holder, fence, ends } end
if not holder then
  wf_sweep_locks(KEYS[1], KEYS[2], now)
  local time = ARGV[1] ~= '' and { '0', now * 1000 } or redis.call('TIME')
  local last = tonumber(redis.call('GET', KEYS[3]) or 0)
  fence = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
  redis.call('SET', KEYS[3], fence)
  redis.call('HSET', KEYS[2], name, fence .. '\n' .. owner)
end
ends = string.format('%.0f', now + ARGV[6])
redis.call('ZADD', KEYS[1], ends, name)
return { owner, fence, ends }

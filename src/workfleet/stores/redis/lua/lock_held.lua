-- KEYS see parts/lock.lua  ARGV 1-3 now, channel, sender  Returns name, owner, fence, end of each lock that is held
-- include: parts/now.lua
-- include: parts/lock.lua
local now, found = wf_now(ARGV[1]), {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now), '+inf')) do
  local owner, fence, ends = wf_lock(name, now)
  found[#found + 1], found[#found + 2], found[#found + 3], found[#found + 4] = name, owner, fence, ends
end
return found

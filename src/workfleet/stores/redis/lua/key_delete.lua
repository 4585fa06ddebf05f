-- KEYS 1 the value  ARGV 1-3 now, channel, sender  4 expected value  Returns 1, or 0
-- include: parts/now.lua
-- include: parts/value.lua
if wf_value(KEYS[1], wf_now(ARGV[1])) ~= ARGV[4] then return 0 end
return redis.call('DEL', KEYS[1])

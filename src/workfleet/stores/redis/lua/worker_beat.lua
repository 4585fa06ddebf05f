-- KEYS see worker_register.lua  ARGV 1-3 now, channel, sender  4 id  5 active
-- Returns {JSON, beat, instruction or nil}, or nil when there is no such worker
-- include: parts/now.lua
local said = redis.call('HGET', KEYS[1], ARGV[4])
if not said then return nil end
local started = string.match(redis.call('HGET', KEYS[2], ARGV[4]), '^%d+')
local beat = started .. string.format(' %.0f ', wf_now(ARGV[1])) .. ARGV[5]
redis.call('HSET', KEYS[2], ARGV[4], beat)
return { said, beat, redis.call('HGET', KEYS[3], ARGV[4]) }

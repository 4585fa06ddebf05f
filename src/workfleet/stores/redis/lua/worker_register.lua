-- KEYS, hashes by worker id: 1 what it said of itself (JSON)  2 "<started ms> <seen ms> <active>"  3 its instruction
-- ARGV 1-3 now, channel, sender  4 id  5 JSON  6 active
-- include: parts/now.lua
local now = string.format('%.0f', wf_now(ARGV[1]))
redis.call('HSET', KEYS[1], ARGV[4], ARGV[5])
redis.call('HSET', KEYS[2], ARGV[4], now .. ' ' .. now .. ' ' .. ARGV[6])
redis.call('HDEL', KEYS[3], ARGV[4])

-- KEYS, hashes by worker id: 1 what it said of itself (JSON)  2 "<started ms> <seen ms> <active>"  3 its instruction
-- 4 its pools, as it said at its last sign of life (JSON)  5 what it is to do with them (JSON)
-- ARGV 1-3 now, channel, sender  4 id  5 JSON  6 active
-- include: parts/now.lua
local now = string.format('%.0f', wf_now(ARGV[1]))
redis.call('HSET', KEYS[1], ARGV[4], ARGV[5])
redis.call('HSET', KEYS[2], ARGV[4], now .. ' ' .. now .. ' ' .. ARGV[6])
for _, key in ipairs({ KEYS[3], KEYS[4], KEYS[5] }) do redis.call('HDEL', key, ARGV[4]) end

-- KEYS 1 the index: of each schedule's rows the key, scored by its oldest row
-- ARGV 1-3 now, channel, sender  4 age (ms)  5 count  6 rows, as msgpack: of each the key of its schedule's rows, its
-- instant (ms), its JSON
-- Adds rows, and deletes what is older than the age or beyond the newest. Both kinds of keys expire with their rows.
-- include: parts/now.lua
-- include: parts/ledger.lua
local now, age, touched = wf_now(ARGV[1]), tonumber(ARGV[4]), {}
for _, row in ipairs(cmsgpack.unpack(ARGV[6])) do
  redis.call('ZADD', row[1], row[2], row[3])
  touched[row[1]] = true
end
for key in pairs(touched) do
  redis.call('ZREMRANGEBYRANK', key, 0, -(tonumber(ARGV[5]) + 1))
  wf_ledger_trim(key, now - age)
  redis.call('PEXPIRE', key, age)
end
redis.call('PEXPIRE', KEYS[1], age)

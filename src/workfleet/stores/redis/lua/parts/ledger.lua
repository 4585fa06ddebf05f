-- wf_ledger_trim(key, before): deletes the rows of a schedule that are older than an instant, and notes in the index
-- (KEYS[1]) which is the oldest now. Returns how many were deleted.
local function wf_ledger_trim(key, before)
  local deleted = redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', before))
  local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if oldest[1] then
    redis.call('ZADD', KEYS[1], oldest[2], key)
  else
    redis.call('ZREM', KEYS[1], key)
  end
  return deleted
end

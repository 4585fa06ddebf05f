-- Locks. KEYS 1 sorted set: name -> end (ms)  2 hash: name -> "<fence>\n<owner>"  3 the last fence
-- wf_lock(name, now): owner, fence (text), end (text) of a lock that is held, or nil.
-- wf_sweep_locks(ends, owners, now): drops up to 100 that have expired.
local function wf_lock(name, now)
  local ends = redis.call('ZSCORE', KEYS[1], name)
  if not ends or tonumber(ends) <= now then return nil end
  local kept = redis.call('HGET', KEYS[2], name)
  local line = string.find(kept, '\n', 1, true)
  return string.sub(kept, line + 1), string.sub(kept, 1, line - 1), string.format('%.0f', tonumber(ends))
end
local function wf_sweep_locks(ends, owners, now)
  local over = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 100)
  if #over > 0 then
    redis.call('ZREM', ends, unpack(over))
    redis.call('HDEL', owners, unpack(over))
  end
  return #over
end

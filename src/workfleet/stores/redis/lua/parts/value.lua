-- A value with an end is stored as "<end in ms>\n<value>".
-- wf_value(key, now): the value, or nil when there is none or its end has come.
-- wf_set_value(key, value, now, ttl): the server drops it a minute after its end, so that only `now` says when that is.
local function wf_value(key, now)
  local there = redis.call('GET', key)
  if not there then return nil end
  local line = string.find(there, '\n', 1, true)
  if tonumber(string.sub(there, 1, line - 1)) <= now then return nil end
  return string.sub(there, line + 1)
end
local function wf_set_value(key, value, now, ttl)
  redis.call('SET', key, string.format('%.0f\n', now + ttl) .. value, 'PX', string.format('%.0f', ttl + 60000))
end

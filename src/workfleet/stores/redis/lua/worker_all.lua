-- KEYS see worker_register.lua  Returns id, JSON, beat, and instruction, pools and orders or nil,
-- of every worker
local found = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local n = i * 3 - 2
  found[n], found[n + 1] = all[i], all[i + 1]
  for key = 2, 5 do found[n + key] = redis.call('HGET', KEYS[key], all[i]) end
end
return found

-- KEYS see worker_register.lua  Returns id, JSON, beat, instruction or nil, of every worker
local found = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local n = i * 2 - 1
  found[n], found[n + 1] = all[i], all[i + 1]
  found[n + 2], found[n + 3] = redis.call('HGET', KEYS[2], all[i]), redis.call('HGET', KEYS[3], all[i])
end
return found

-- KEYS see worker_register.lua  ARGV 1-3 now, channel, sender  4 id  5 order (JSON)  Returns 1, or 0
if redis.call('HEXISTS', KEYS[1], ARGV[4]) == 0 then return 0 end
local new, kept = cjson.decode(ARGV[5]), {}
local there = redis.call('HGET', KEYS[5], ARGV[4])
for _, order in ipairs(there and cjson.decode(there) or {}) do
  if order.id ~= new.id and (order.pool ~= new.pool or order.verb ~= new.verb) then kept[#kept + 1] = order end
end
kept[#kept + 1] = new
redis.call('HSET', KEYS[5], ARGV[4], cjson.encode(kept))
return 1

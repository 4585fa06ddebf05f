-- KEYS see worker_register.lua  ARGV 1-3 now, channel, sender  4 id  5 instruction (empty: none)  Returns 1, or 0
if redis.call('HEXISTS', KEYS[1], ARGV[4]) == 0 then return 0 end
if ARGV[5] == '' then
  redis.call('HDEL', KEYS[3], ARGV[4])
else
  redis.call('HSET', KEYS[3], ARGV[4], ARGV[5])
end
return 1

-- KEYS see worker_register.lua  ARGV 1-3 now, channel, sender  4 id  Returns 1, or 0 when there was none
for n = 2, 5 do redis.call('HDEL', KEYS[n], ARGV[4]) end
return redis.call('HDEL', KEYS[1], ARGV[4])

-- KEYS see worker_register.lua  ARGV 1-3 now, channel, sender  4 id  Returns 1, or 0 when there was none
redis.call('HDEL', KEYS[2], ARGV[4])
redis.call('HDEL', KEYS[3], ARGV[4])
return redis.call('HDEL', KEYS[1], ARGV[4])

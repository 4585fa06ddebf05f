-- KEYS 1 the value  ARGV 1-3 now, channel, sender  Returns the value or nil
-- include: parts/now.lua
-- include: parts/value.lua
return wf_value(KEYS[1], wf_now(ARGV[1]))

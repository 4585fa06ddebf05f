-- KEYS see parts/schedule.lua  ARGV 4- of each: name, slot (as the hash has it), until when it is not handed out (ms)
-- include: parts/wake.lua
-- include: parts/schedule.lua
for i = 4, #ARGV, 3 do
  if redis.call('HGET', KEYS[2] .. ARGV[i] .. ':s', 'next_due_ms') == ARGV[i + 1] then
    wf_schedule_line(ARGV[i], ARGV[i + 2])
  end
end
return 1

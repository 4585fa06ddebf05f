-- Fires: each a compare-and-set on the schedule's due slot that adds the job in the same step.
-- KEYS and ARGV as in parts/names.lua, and: KEYS 2 what every schedule's hash begins with: see parts/schedule.lua
-- Asked: a list of fires: schedule, slot, next (or nil), ran, unless_running, skipped, missed, call (or nil), and the job
--   (or nil) as in parts/adding.lua.  Slots are text, as the hash has them.
-- Returns {topics to wake, kind and running job's id (or empty) of each}
-- include: parts/adding.lua

local function run(key, fire)
  if not fire.job then return fire.skipped and 'skipped' or 'missed', '' end
  if fire.unless_running then
    local last = call('HGET', key, 'last_job_id')
    local job = last and find(last)
    if job and not job.finished then return 'skipped', last end
  end
  local added = add_all({ fire.job })[1][1]
  if added ~= fire.job.id then return 'skipped', added end
  call('HSET', key, 'last_fired_ms', string.format('%.0f', now), 'last_job_id', added)
  return 'fired', ''
end

local function fired(fire)
  local key = KEYS[2] .. fire.schedule .. ':s'
  local there = call('HMGET', key, 'next_due_ms', 'enabled', 'paused', 'orphaned', 'call', 'call_slot', 'call_kind',
    'call_running')
  if fire.call and there[5] == fire.call and there[6] == fire.slot then return there[7], there[8] end
  if there[1] ~= fire.slot or there[2] ~= '1' or there[3] == '1' or there[4] == '1' then return 'lost', '' end
  local kind, running = run(key, fire)
  call('HSET', key, 'last_slot_ms', fire.ran, 'last_outcome', kind, 'call', fire.call or '', 'call_slot', fire.slot,
    'call_kind', kind, 'call_running', running)
  if fire.next then call('HSET', key, 'next_due_ms', fire.next) else call('HDEL', key, 'next_due_ms') end
  call('HINCRBY', key, 'missed', fire.missed)
  if kind ~= 'missed' then call('HINCRBY', key, kind, 1) end
  return kind, running
end

local answers = {}
for _, fire in ipairs(asked) do
  answers[#answers + 1], answers[#answers + 2] = fired(fire)
end
return { wf_woken(ARGV[2], ARGV[3]), answers }

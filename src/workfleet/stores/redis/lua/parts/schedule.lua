-- Schedules. KEYS 1 set of their names  2 what every schedule's hash begins with, before its name and ":s"
-- 3 their revision: how often definitions were changed so far
-- A hash: definition (JSON), fingerprint, enabled, from_code, orphaned, paused (0 or 1), fired, skipped, missed; absent
-- where there is none: next_due_ms, last_slot_ms, last_fired_ms, last_job_id, last_outcome; and of the last fire, for
-- its repeats: call, call_slot, call_kind, call_running.
-- wf_schedule_set(name, definition, fingerprint, enabled, from_code, next_due): stores a definition. What the fleet did
-- under that name so far stays.
-- wf_schedules_changed(): a definition was changed: raises the revision, and wakes.
-- wf_schedules(): name and flat hash of each.
local function wf_schedules_changed()
  redis.call('INCR', KEYS[3])
  wf_wake('schedules')
end
local function wf_schedule_set(name, definition, fingerprint, enabled, from_code, next_due)
  local key = KEYS[2] .. name .. ':s'
  if redis.call('SADD', KEYS[1], name) == 1 then
    redis.call('HSET', key, 'paused', 0, 'fired', 0, 'skipped', 0, 'missed', 0)
  end
  redis.call('HSET', key, 'definition', definition, 'fingerprint', fingerprint, 'enabled', enabled,
    'from_code', from_code, 'orphaned', 0)
  if next_due == '' then
    redis.call('HDEL', key, 'next_due_ms')
  else
    redis.call('HSET', key, 'next_due_ms', next_due)
  end
  wf_schedules_changed()
end
local function wf_schedules()
  local found = {}
  for i, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    found[i] = { name, redis.call('HGETALL', KEYS[2] .. name .. ':s') }
  end
  return found
end

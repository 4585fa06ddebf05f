-- Fires: each a compare-and-set on the schedule's due slot that adds the job in the same step.
-- KEYS and ARGV as in parts/names.lua, and: KEYS 2 what every schedule's hash begins with, 3 its KEYS 4: see
--   parts/schedule.lua
-- Asked: fires, a list; failure (JSON) and reason of a run that is cancelled; most, how many notes are kept. A fire:
--   schedule, slot, next (or nil), held (or nil), ran, overlap, waits, skipped, missed, late, reasons,
--   call (or nil), and the job (or nil) as in parts/adding.lua. Slots are text, as the hash has them.
-- Returns {topics to wake, kind and running job's id (or empty) of each}
-- include: parts/adding.lua
-- include: parts/cancelling.lua

-- The answer to a fire whose job another one keeps out.
local function refused(fire, holding)
  if fire.waits then return 'busy', holding end
  local there = find(holding)
  local waits = there and not there.started and not there.finished
  local coalesces = fire.overlap == 'queue_one' or fire.overlap == 'cancel_running'
  return waits and coalesces and 'coalesced' or 'skipped', holding
end

local function run(key, fire)
  if not fire.job then return fire.skipped > 0 and 'skipped' or 'missed', '' end
  if fire.overlap ~= 'allow' then
    local last = call('HGET', key, 'last_job_id')
    local job = last and find(last)
    if job and job.finished then job = nil end
    if job and (fire.waits or fire.overlap == 'skip') then return fire.waits and 'busy' or 'skipped', last end
    local own = job and job.wf.key == fire.job.key
    if fire.overlap == 'cancel_running' and not fire.waits then
      for _, other in ipairs(fire.job.key and of_key(fire.job.key) or {}) do
        if other.started then cancel(other, asked.failure, asked.reason) end
      end
      if job and not own and job.started and cancel(job, asked.failure, asked.reason) == 'cancelled' then job = nil end
    end
    -- It ran by another policy, and no key keeps them apart.
    if job and not own then return 'skipped', last end
  end
  local added = add_all({ fire.job })[1][1]
  if added ~= fire.job.id then return refused(fire, added) end
  call('HSET', key, 'last_fired_ms', now_text, 'last_job_id', added)
  return 'fired', ''
end

local function note(notes, status, slot, count, fire, running)
  local reason = string.gsub(fire.reasons[status] or '', '{run}', function() return running end)
  notes[#notes + 1] = { status = status, slot_ms = tonumber(slot), at_ms = now, reason = reason, count = count }
end

-- What becomes of the schedule's record.
local function record(key, fire, kind, status, running)
  local notes, skipped = {}, kind == 'skipped' and (fire.job and 1 or fire.skipped) or 0
  if fire.missed > 0 then note(notes, 'missed', fire.slot, fire.missed, fire, '') end
  if status == 'skipped' and skipped > 1 then note(notes, status, fire.slot, skipped, fire, '')
  elseif status ~= 'fired' and status ~= 'missed' then note(notes, status, fire.ran, 1, fire, running) end
  if #notes > 0 then
    local fine, kept = pcall(cjson.decode, call('HGET', key, 'notes') or '[]')
    if not fine or type(kept) ~= 'table' then kept = {} end
    for _, each in ipairs(notes) do kept[#kept + 1] = each end
    while #kept > asked.most do table.remove(kept, 1) end
    call('HSET', key, 'notes', cjson.encode(kept))
  end
  call('HINCRBY', key, 'missed', fire.missed)
  if kind == 'fired' or kind == 'coalesced' then call('HINCRBY', key, kind, 1) end
  if status == 'late' then call('HINCRBY', key, 'late', 1) end
  if skipped > 0 then call('HINCRBY', key, 'skipped', skipped) end
end

local function fired(fire)
  local key = KEYS[2] .. fire.schedule .. ':s'
  local there = call('HMGET', key, 'next_due_ms', 'enabled', 'paused', 'orphaned', 'call', 'call_slot', 'call_kind',
    'call_running')
  if fire.call and there[5] == fire.call and there[6] == fire.slot then return there[7], there[8] end
  if there[1] ~= fire.slot or there[2] ~= '1' or there[3] == '1' or there[4] == '1' then return 'lost', '' end
  local kind, running = run(key, fire)
  if kind == 'busy' then return kind, running end
  local status = kind == 'fired' and fire.late and 'late' or kind
  call('HSET', key, 'last_slot_ms', fire.ran, 'last_outcome', status, 'call', fire.call or '', 'call_slot', fire.slot,
    'call_kind', kind, 'call_running', running)
  if fire.next then
    call('HSET', key, 'next_due_ms', fire.next)
    call('ZADD', KEYS[3], fire.held or fire.next, fire.schedule)
  else
    call('HDEL', key, 'next_due_ms')
    call('ZREM', KEYS[3], fire.schedule)
  end
  record(key, fire, kind, status, running)
  return kind, running
end

local answers = {}
for _, fire in ipairs(asked.fires) do
  answers[#answers + 1], answers[#answers + 2] = fired(fire)
end
return { wf_woken(ARGV[2], ARGV[3]), answers }

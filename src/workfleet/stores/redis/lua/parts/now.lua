-- wf_now(given): the store's time in ms: `given` where a test's clock says it, else the server's.
local function wf_now(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The script of wrk: sends the requests in a file. Arguments:
-- 1. a file with requests, separated by \30; \26 is the placeholder for the counter
-- 2. a file with the order in which to send them, or "" for the order of the first file
-- 3. the number of requests that were sent before
-- 4. the error status that all responses must have, or 0

local requests, rests, order = {}, {}, nil
local threads = {}

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  for request in read(args[1]):gmatch("[^\30]+") do
    local head, rest = request:match("^([^\26]*)\26(.*)$")
    requests[#requests + 1] = head or request
    rests[#requests] = rest
  end
  if args[2] ~= "" then
    order = {}
    for number in read(args[2]):gmatch("%d+") do order[#order + 1] = tonumber(number) + 1 end
  end
  cursor = tonumber(args[3])
  expected, unexpected = tonumber(args[4] or 0), 0
  -- A `response` function slows wrk down, so it is defined only if an error status is expected.
  if expected > 0 then
    function response(status)
      if status ~= expected then unexpected = unexpected + 1 end
    end
  end
end

function request()
  local at = cursor
  cursor = at + 1
  if order then return requests[order[at % #order + 1]] end
  local place = at % #requests + 1
  local rest = rests[place]
  if rest then return requests[place] .. (1000000000 + at) .. rest end
  return requests[place]
end

function done(summary, latency)
  local stat = read("/proc/self/stat"):match("%) (.*)$")
  local fields = {}
  for field in stat:gmatch("%S+") do fields[#fields + 1] = tonumber(field) or 0 end
  local errors = summary.errors
  if threads[1]:get("expected") > 0 then errors.status = threads[1]:get("unexpected") end
  io.write(string.format(
    '\nRESULT {"requests":%d,"microseconds":%d,"bytes":%d,"p50":%d,"p99":%d,"p999":%d,"max":%d,"cursor":%d,"ticks":%d,' ..
      '"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}}\n',
    summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
    latency:percentile(99.9), latency.max, threads[1]:get("cursor"), fields[12] + fields[13],
    errors.connect, errors.read, errors.write, errors.status, errors.timeout
  ))
end

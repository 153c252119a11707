-- Charges every limit of a subject, or none, in one step.
--
-- KEYS[1]  the subject
-- ARGV[1]  now (seconds I5, nanoseconds I4), then 51 bytes a charge:
--            c17  the limit: id I5, kind B, length in ns I7, capacity I4
--            I6   version of the rules that set it
--            B    kind: 1 bucket, 2 sliding window, 3 fixed window
--            bucket: three instants or durations of I5 s and I4 ns
--              latest TAT that allows the cost, increment, latest TAT of honest clocks
--            window: index I5, cost I4, latest index of honest clocks I5,
--              weight of the previous window in 2^-20 I4, requests less cost I5, 0 I4
-- ARGV[2]  time to live in ms
--
-- The value is a format byte 1, then 36 bytes a limit: c17 and I6 as above, and the
-- state: bucket TAT I5 s, I4 ns, refunds I4; window index I5, count I4, previous I4.
--
-- Returns the new value if all was charged. Otherwise nothing was, and it returns the
-- value in an array: the caller finds out whether it refuses, or holds a limit of
-- other parameters or a spoiled state, which are rare and mended by replace.lua.
--
-- Nanoseconds since 1970 do not fit a double's 53 bits, so instants are compared in
-- two parts. The clock is the caller's: scripts may not ask for the time everywhere.
local value, args = redis.call('GET', KEYS[1]), ARGV[1]
if value and (value:byte() ~= 1 or #value % 36 ~= 1) then return {value} end
local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local now_s, now_ns = unpack('<I5I4', args)
local new = value or '\1'
local at = 2

for from = 10, #args, 51 do
  local limit, version, kind, a_s, a_ns, b_s, b_ns, c_s, c_ns = unpack('<c17I6BI5I4I5I4I5I4', args, from)
  if sub(new, at, at + 16) ~= limit then
    local id = sub(limit, 1, 5)
    at = 2
    while at < #new and sub(new, at, at + 4) ~= id do at = at + 36 end
    if at < #new and sub(new, at, at + 16) ~= limit then return {value} end
  end
  local s, n, m = 0, 0, 0
  if at < #new then version, s, n, m = unpack('<I6I5I4I4', new, at + 17) end
  local writes
  if kind == 1 then
    if s > a_s or s == a_s and n > a_ns or s > c_s or s == c_s and n > c_ns then return {value} end
    writes = b_s + b_ns > 0
    if s < now_s or s == now_s and n < now_ns then s, n = now_s, now_ns end
    s, n = s + b_s, n + b_ns
    if n >= 1000000000 then s, n = s + 1, n - 1000000000 end
  else
    if s > b_s then return {value} end
    if s < a_s then
      if s == a_s - 1 then m = n else m = 0 end
      s, n = a_s, 0
    elseif s > a_s and b_ns > 0 then
      b_ns = 1048576
    end
    if n + math.ceil(m * b_ns / 1048576) > c_s then return {value} end
    writes = a_ns > 0
    n = n + a_ns
  end
  if writes then
    new = sub(new, 1, at - 1) .. limit .. pack('<I6I5I4I4', version, s, n, m) .. sub(new, at + 36)
  end
  at = at + 36
end

redis.call('SET', KEYS[1], new, 'PX', ARGV[2])
return new

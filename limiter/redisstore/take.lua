-- Charges every limit of a subject, or none, in one step.
--
-- KEYS[1]  the subject
-- ARGV[1]  now (I4 I4), then 48 bytes a charge, integers big endian:
--            c17  the limit: id I5, kind B, length in ns I7, capacity I4
--            I6   version of the rules that set it
--            B    kind: 1 bucket, 2 sliding window, 3 fixed window, 4 log; 128 more if the
--                 limit has other parameters than those rules set, and counts only if the
--                 value has it of their version or a higher one
--            six I4, which are
--              bucket: latest TAT that allows the cost; increment; 0, 0
--              window: index, cost; latest index of honest clocks, weight of the previous
--                window in 2^-20; largest count that allows the cost, 0
--              log: latest instant that has expired; largest count that allows the cost,
--                cost; latest instant of honest clocks
-- ARGV[2]  time to live in ms
--
-- The value is a format byte 1, the number of limits B, 35 bytes a limit, and the
-- entries of logs. A limit is c17 and I6 as above, and the state: bucket TAT and
-- refunds I4; window index I4, count I4, previous I4; log newest instant and number of
-- entries I4. Entries are instants, oldest first, those of one log after another.
--
-- Returns the new value if everything was charged. Otherwise nothing was, and it returns
-- the value in an array: the caller finds out whether the value refuses, or holds a limit
-- with other parameters, a state to clamp, or another format, which are rare.
--
-- Nanoseconds since 1970 do not fit a double's 53 bits, so instants are two halves of
-- 32. The clock is the caller's: not every server lets a script read the time.
local value, args = redis.call('GET', KEYS[1]), ARGV[1]
local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local new = value or '\1\0'
local format, limits = new:byte(1, 2)
local rest = #new - 2 - 35 * (limits or 0)
if format ~= 1 or rest < 0 then return {value} end
if rest > 0 then
  for i = 3, 2 + 35 * limits, 35 do
    if new:byte(i + 5) == 4 then rest = rest - 8 * unpack('>I4', new, i + 31) end
  end
  if rest ~= 0 then return {value} end
end
local now_hi, now_lo = unpack('>I4I4', args)
local at = 3

for i = 9, #args, 48 do
  local limit, version, kind, a, b, c, d, e, f = unpack('>c17I6BI4I4I4I4I4I4', args, i)
  local last = 2 + 35 * limits
  if at > last or sub(new, at, at + 16) ~= limit then
    local id = sub(limit, 1, 5)
    at = 3
    while at < last and sub(new, at, at + 4) ~= id do at = at + 35 end
    if at < last and sub(new, at, at + 16) ~= limit or at > last and limits == 255 then return {value} end
  end
  local s, n, m = 0, 0, 0
  local own = version
  if at < last then version, s, n, m = unpack('>I6I4I4I4', new, at + 17) end
  if kind > 127 then
    if at > last or version < own then return {value} end
    kind = kind - 128
  end
  local writes, from, dead, more
  if kind == 1 then
    if s > a or s == a and n > b then return {value} end -- and so if it is spoiled
    writes = c + d > 0
    if s < now_hi or s == now_hi and n < now_lo then s, n = now_hi, now_lo end
    s, n = s + c, n + d
    if n >= 4294967296 then s, n = s + 1, n - 4294967296 end
  elseif kind == 4 then
    if s > e or s == e and n > f then return {value} end
    from = 3 + 35 * limits
    for j = 3, at - 35, 35 do
      if new:byte(j + 5) == 4 then from = from + 8 * unpack('>I4', new, j + 31) end
    end
    local function expired(hi, lo) -- how many entries are not after an instant
      local low, high = 0, m
      while low < high do
        local middle = math.floor((low + high) / 2)
        local e_hi, e_lo = unpack('>I4I4', new, from + 8 * middle)
        if e_hi < hi or e_hi == hi and e_lo <= lo then low = middle + 1 else high = middle end
      end
      return low
    end
    if s < now_hi or s == now_hi and n < now_lo then
      s, n = now_hi, now_lo
    else -- a clock that is behind counts as if it were at the newest entry
      local hi, lo = unpack('>I3I4', limit, 7)
      a, b = s - hi, n - lo
      if b < 0 then a, b = a - 1, b + 4294967296 end
    end
    writes, dead = d > 0, expired(a, b)
    if m - dead > c then return {value} end
    more = string.rep(pack('>I4I4', s, n), d)
  else
    if s > c then return {value} end
    if s < a then
      if s == a - 1 then m = n else m = 0 end
      s, n = a, 0
    elseif s > a and d > 0 then
      d = 1048576
    end
    if n + math.ceil(m * d / 1048576) > e then return {value} end
    writes = b > 0
    n = n + b
  end
  if writes then
    if at > last then -- a new limit goes before the entries
      limits = limits + 1
      new = '\1' .. string.char(limits) .. sub(new, 3, last) .. limit .. pack('>I6I4I4I4', version, s, n, m) .. sub(new, last + 1)
      if more then from = #new + 1 end
    else
      new = sub(new, 1, at - 1) .. limit .. pack('>I6I4I4I4', version, s, n, m) .. sub(new, at + 35)
    end
    if more then
      local left = m - dead
      new = sub(new, 1, from - 1) .. sub(new, from + 8 * dead, from + 8 * m - 1) .. more .. sub(new, from + 8 * m)
      new = sub(new, 1, at + 30) .. pack('>I4', left + #more / 8) .. sub(new, at + 35)
    end
  end
  at = at + 35
end

-- Other limits of the subject may need the key for longer than the charged ones.
if limits * 48 > #args - 8 and redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], new, 'KEEPTTL')
else
  redis.call('SET', KEYS[1], new, 'PX', ARGV[2])
end
return new

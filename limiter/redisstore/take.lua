-- Charges every limit of a subject, or none, in one step. value.lua describes the value.
--
-- KEYS[1]  key of the subject
-- ARGV[1]  now (2 I4), the time to live in ms (I6), then the charges. A charge has
--            seven I4
--              bucket: latest TAT that allows the cost (2 I4); increment (2 I4); 0, 0, 0
--              window: index, cost; latest index of honest clocks; weight of the previous
--                window in 2^-20; largest count that allows the cost; high halves of the cost and of the
--                largest count
--              log, slots: time from the newest expired entry to now, in ns (2 I4); largest count that
--                allows the cost; cost; latest entry of honest clocks (2 I4); 0
--            B: 0 if these are the parameters of the charged rules. 1 if they are newer parameters
--               that the caller read earlier: the value must then have the limit, set by the same
--               or a higher version of the rules
--            B: kind of the state
--            I6: version of the rules that set the limit
--            B length of the parameters, I5 id, the parameters
--
-- Returns B 1 and the new value if it charged every limit. Otherwise it charged none, and returns B 0 and the value.
-- The caller then finds the reason: usually the value refuses. Rarely the value has a limit with other parameters, a
-- state to clamp, or another format.
--
-- Expired slots stay while there is room.
--
-- The entry of a slot is now, rounded up to a millisecond, plus the slot's number in ns, 0 to 499999. The number
-- follows that of the slot taken last. algo.Slots has the reason. Rarely, a number is still in use; the caller then
-- makes the charge.
--
-- The caller sends the instant, because not every server lets a script read the time.
local args, new = ARGV[1], value or '\4'
if byte(new) ~= 4 then return '\0' .. (value or '') end
local now_hi, now_lo, ttl = unpack('>I4I4I6', args)
local at, i = 2, 15 -- at: position after the limit charged last

while i <= #args do
  local a, b, c, d, e, f, g, other, kind, own, length = unpack('>I4I4I4I4I4I4I4BBI6B', args, i)
  local limit = sub(args, i + 36, i + 41 + length)
  i = i + 36 + #limit
  if sub(new, at, at + #limit - 1) ~= limit then
    at = find(new, sub(limit, 2, 6))
    if not at then return '\0' .. (value or '') end
    if at == 0 then
      at = #new + 1
    elseif sub(new, at, at + #limit - 1) ~= limit then
      return '\0' .. (value or '')
    end
  end
  local first = at > #new -- the value does not have the limit
  at = at + #limit
  if first then
    if other == 1 then return '\0' .. (value or '') end
  else
    local stored, version = unpack('>BI6', new, at)
    if stored % 128 ~= kind or other == 1 and version < own then return '\0' .. (value or '') end
    at = at + (stored > 127 and 23 or 7)
  end
  local old, state = 12 -- length of the old state; the new state
  if kind == 1 then
    local s, n, m = 0, 0, 0
    if not first then s, n, m = unpack('>I4I4I4', new, at) end
    if s > a or s == a and n > b then return '\0' .. (value or '') end -- also if the state is too far ahead of the clock
    if s < now_hi or s == now_hi and n < now_lo then s, n = now_hi, now_lo end
    s, n = s + c, n + d
    if n >= 4294967296 then s, n = s + 1, n - 4294967296 end
    state = c + d > 0 and pack('>I4I4I4', s, n, m)
  elseif kind == 2 then
    local s, n, m = 0, 0, 0
    old = 18
    b, e = b + f * 4294967296, e + g * 4294967296
    if not first then s, n, m = unpack('>I4I7I7', new, at) end
    if s > c then return '\0' .. (value or '') end
    if s < a then
      if s == a - 1 then m = n else m = 0 end
      s, n = a, 0
    elseif s > a and d > 0 then
      d = 1048576
    end
    local low = m % 1048576 -- the product m * d would not fit a double
    if n + (m - low) / 1048576 * d + math.ceil(low * d / 1048576) > e then return '\0' .. (value or '') end
    state = b > 0 and pack('>I4I7I7', s, n + b, m)
  else
    local s, n, m = 0, 0, 0
    if not first then s, n, m = unpack('>I4I4I4', new, at) end
    local from, slots, tail, last_hi, last_lo = at + 12, kind == 4, '', s, n
    if slots and m > 0 then s, n = unpack('>I4I4', new, from + 8 * m - 8) end
    if m > 0 or not slots then
      if s > e or s == e and n > f then return '\0' .. (value or '') end
    end
    local function expired(hi, lo) -- returns the number of entries up to an instant
      local low, high = 0, m
      while low < high do
        local middle = math.floor((low + high) / 2)
        local e_hi, e_lo = unpack('>I4I4', new, from + 8 * middle)
        if e_hi < hi or e_hi == hi and e_lo <= lo then low = middle + 1 else high = middle end
      end
      return low
    end
    -- If the clock is behind, the charge on a log counts at the instant of the newest entry.
    if slots or s < now_hi or s == now_hi and n < now_lo then s, n = now_hi, now_lo end
    a, b = s - a, n - b
    if b < 0 then a, b = a - 1, b + 4294967296 end
    local dead = expired(a, b)
    if m - dead > c then return '\0' .. (value or '') end
    old = 12 + 8 * m
    local count, entries = m - dead
    if slots and d > 0 then
      if m <= c then dead, count = 0, m end
      -- 2^32 ns are 967296 ns more than full milliseconds
      local after = (s * 967296 + n) % 1000000 -- time of now after a full millisecond
      local number = last_hi + last_lo > 0 and (last_hi * 967296 + last_lo) % 1000000 + 1 or after % 500000
      if number + d > 500000 then number = 0 end
      if after > 0 then n = n + 1000000 - after end
      local function entry(i) -- returns the new entry i, counting from 1
        local lo = n + number + i - 1
        if lo < 4294967296 then return s, lo end
        return s + 1, lo - 4294967296
      end
      local last = expired(entry(d)) -- slots ahead of the clock stay after the new ones
      if last > expired(entry(0)) then return '\0' .. (value or '') end
      m, tail, entries = last, sub(new, from + 8 * last, from + 8 * m - 1), {}
      for j = 1, d do entries[j] = pack('>I4I4', entry(j)) end
      entries = table.concat(entries)
      s, n = entry(d)
    elseif d > 0 then
      entries = string.rep(pack('>I4I4', s, n), d)
    end
    state = d > 0 and pack('>I4I4I4', s, n, count + d) .. sub(new, from + 8 * dead, from + 8 * m - 1) .. entries .. tail
  end
  if not state then
    at = first and #new + 1 or at + old
  elseif first then
    new = new .. limit .. pack('>BI6', kind, own) .. state
    at = #new + 1
  else
    new = sub(new, 1, at - 1) .. state .. sub(new, at + old)
    at = at + #state
  end
end

keep(new, ttl)
return '\1' .. new

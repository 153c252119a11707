-- Charges every limit of a subject, or none, in one step.
--
-- KEYS[1]  key of the subject
-- ARGV[1]  now (2 I4), then the charges; integers are big endian. A charge has:
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
--            I6: version of the rules that set the limit
--            the limit: tag B, id I5, parameters
-- ARGV[2]  time to live in ms
--
-- Returns the new value if it charged every limit. Otherwise it charged none, and returns the value in
-- an array. The caller then finds the reason: usually the value refuses. Rarely the value has a limit
-- with other parameters, a state to clamp, or another format.
--
-- The value has
--   B   2, the format
--   B   number of limits
--   I6  version of the rules
--   the limits. Each limit has
--     B   tag: kind * 16 + length of the parameters (for a calendar: a third of the length)
--     I5  id
--     the parameters
--     the state
--       bucket: TAT (2 I4)
--       window: index I4, count and previous count: I2, or I7 if the counts are large
--       log: newest instant (2 I4), number of entries I4, entries (2 I4 each), oldest first
--       slots: entry of the slot taken last (2 I4), then like a log
--     elements that are present only if they differ from the default
--       112, I6: version of the rules, if it differs from the version of the value
--       128, 16 bytes: mark of a state too far ahead of a clock
--       144, I4: number of refunds of a bucket
--
-- The kinds are 1 bucket, 2 sliding window, 3 fixed window, 4 log or slots, 5 and 6 windows like 2 and 3
-- with large counts, and 10 a window like 6 with a calendar. The parameters of slots end with a zero
-- byte, those of a log do not. Expired slots stay while there is room. The script does not change
-- parameters, nor the elements after a state.
--
-- The entry of a slot is now, rounded up to a millisecond, plus the slot's number in ns, 0 to 499999. The number
-- follows that of the slot taken last. algo.Slots has the reason. Rarely, a number is still in use; the caller then
-- makes the charge.
--
-- Nanoseconds since 1970 do not fit the 53 bits of a double, so an instant is two halves of 32 bits. The
-- caller sends the instant, because not every server lets a script read the time.
local args, unpack, pack, sub, byte = ARGV[1], struct.unpack, struct.pack, string.sub, string.byte
local value = redis.call('GET', KEYS[1])
local new = value or '\2\0' .. sub(args, 38, 43)
local format, limits = byte(new, 1, 2)
if format ~= 2 or #new < 8 then return {value} end
local now_hi, now_lo = unpack('>I4I4', args)
local at, i, charges = 9, 9, 0 -- at: position after the state charged last

while i < #args do
  local a, b, c, d, e, f, g, other, own, tag = unpack('>I4I4I4I4I4I4I4BI6B', args, i)
  local limit = sub(args, i + 35, i + 40 + tag % 16 * (tag > 159 and 3 or 1))
  i, charges = i + 35 + #limit, charges + 1
  if sub(new, at, at + #limit - 1) ~= limit then
    local id, count, found = sub(limit, 2, 6), 0
    at = 9
    while at <= #new do
      local t = byte(new, at)
      local extra = t % 16 -- length of the parameters
      local size = byte('\14\14\14\18\24\24\7\17\5\24', (t - extra) / 16) -- without parameters and entries
      if t > 159 then extra = 3 * extra end
      if not size or at + size + extra > #new + 1 then return {value} end
      if t < 112 or t > 159 then
        count = count + 1
        if sub(new, at + 1, at + 5) == id then found = at end
        if t > 63 and t < 80 then size = size + 8 * unpack('>I4', new, at + 14 + extra) end
      end
      at = at + size + extra
    end
    if at ~= #new + 1 or count ~= limits then return {value} end
    if found then
      at = found
      if sub(new, at, at + #limit - 1) ~= limit then return {value} end
    elseif limits == 255 then
      return {value}
    end
  end
  local first = at > #new -- the value does not have the limit
  at = at + #limit
  if other == 1 then
    if first then return {value} end
    local version, j = unpack('>I6', new, 3), at + (tag < 64 and 8 or tag > 79 and 18 or 12 + 8 * unpack('>I4', new, at + 8))
    local t = byte(new, j) or 0
    while t > 111 and t < 160 do
      if t == 112 then version = unpack('>I6', new, j + 1) end
      j = j + byte('\7\17\5', t / 16 - 6)
      t = byte(new, j) or 0
    end
    if version < own then return {value} end
  end
  local old, state = 8 -- length of the old state; the new state
  if tag < 32 then
    local s, n = 0, 0
    if not first then s, n = unpack('>I4I4', new, at) end
    if s > a or s == a and n > b then return {value} end -- also if the state is too far ahead of the clock
    if s < now_hi or s == now_hi and n < now_lo then s, n = now_hi, now_lo end
    s, n = s + c, n + d
    if n >= 4294967296 then s, n = s + 1, n - 4294967296 end
    state = c + d > 0 and pack('>I4I4', s, n)
  elseif tag > 63 and tag < 80 then
    local s, n, m = 0, 0, 0
    if not first then s, n, m = unpack('>I4I4I4', new, at) end
    local from, slots, tail, last_hi, last_lo = at + 12, byte(limit, #limit) == 0, '', s, n
    if slots and m > 0 then s, n = unpack('>I4I4', new, from + 8 * m - 8) end
    if m > 0 or not slots then
      if s > e or s == e and n > f then return {value} end
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
    if m - dead > c then return {value} end
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
      if last > expired(entry(0)) then return {value} end
      m, tail, entries = last, sub(new, from + 8 * last, from + 8 * m - 1), {}
      for j = 1, d do entries[j] = pack('>I4I4', entry(j)) end
      entries = table.concat(entries)
      s, n = entry(d)
    elseif d > 0 then
      entries = string.rep(pack('>I4I4', s, n), d)
    end
    state = d > 0 and pack('>I4I4I4', s, n, count + d) .. sub(new, from + 8 * dead, from + 8 * m - 1) .. entries .. tail
  else
    local layout, s, n, m = '>I4I2I2', 0, 0, 0
    if tag > 79 then layout, old = '>I4I7I7', 18 end
    b, e = b + f * 4294967296, e + g * 4294967296
    if not first then s, n, m = unpack(layout, new, at) end
    if s > c then return {value} end
    if s < a then
      if s == a - 1 then m = n else m = 0 end
      s, n = a, 0
    elseif s > a and d > 0 then
      d = 1048576
    end
    local low = m % 1048576 -- the product m * d would not fit a double
    if n + (m - low) / 1048576 * d + math.ceil(low * d / 1048576) > e then return {value} end
    state = b > 0 and pack(layout, s, n + b, m)
  end
  if state and first then
    limits = limits + 1
    new = '\2' .. string.char(limits) .. sub(new, 3) .. limit .. state
    if own ~= unpack('>I6', new, 3) then new = new .. pack('>BI6', 112, own) end
  elseif state then
    new = sub(new, 1, at - 1) .. state .. sub(new, at + old)
  end
  at = at + (state and #state or old)
end

-- Other limits of the subject may need the key for longer than the charged ones.
if limits > charges and redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], new, 'KEEPTTL')
else
  redis.call('SET', KEYS[1], new, 'PX', ARGV[2])
end
return new

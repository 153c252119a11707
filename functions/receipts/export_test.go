package receipts

import "time"

// Rotated returns keys after a rotation at the time now.
func Rotated(k Keys, now time.Time) Keys { return Keys{NewKeys().current, k.current, now} }

// Forget returns keys without the previous key.
func Forget(k Keys) Keys { return Keys{current: k.current} }

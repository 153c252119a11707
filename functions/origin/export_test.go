package origin

import (
	"time"

	"github.com/weir-limits/weir/functions/records"
)

// NewSecrets returns a random secret.
func NewSecrets() Secrets { return fromPair(records.NewPair()) }

// After returns secrets after a rotation at the time now.
func (s Secrets) After(now time.Time) Secrets { return Secrets{NewSecrets().current, s.current, now} }

// Values returns the current and the previous secret.
func (s Secrets) Values() (current, previous string) { return s.current, s.previous }

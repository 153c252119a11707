package origin

import (
	"time"

	"github.com/weir-limits/weir/functions/records"
)

// Pair is the item of a table.
type Pair = records.Pair

// These are the changes of the item, and the secrets in it.
var (
	DeployPair = deploy
	PermitPair = permit
	FromPair   = fromPair
)

// NewSecrets returns a random secret.
func NewSecrets() Secrets { return fromPair(records.NewPair()) }

// After returns secrets after a rotation at the time now.
func (s Secrets) After(now time.Time) Secrets { return Secrets{NewSecrets().current, s.current, now} }

// Values returns the current and the previous secret.
func (s Secrets) Values() (current, previous string) { return s.current, s.previous }

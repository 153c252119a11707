package serve

import (
	"time"

	"github.com/weir-limits/weir/limiter/rules"
)

// Page is what the console shows.
type Page struct {
	// Rules returns the rules in force, and Reload their state.
	Rules  func() *rules.Rules
	Reload func() Reload
	Clock  func() time.Time
	// Source is a text that names the origin of the rules, and Store one that names the store. The
	// page shows both.
	Source, Store string
}

// Reload is the state of the rules after the last reload.
type Reload struct {
	Since   time.Time // when the rules in force were loaded
	Problem error     // the reason why the document at the source is not in force; nil if it is
}

func (s *Server) page() Page {
	return Page{Rules: s.live.Current, Reload: func() Reload { return *s.reload.Load() }, Clock: s.Clock, Source: s.Rules, Store: s.Store}
}

package lambdahttp

import "github.com/weir-limits/weir/limiter/httplimit"

// Gate returns the gate of the environment, for tests of Gate.Wrap.
func (e *Environment) Gate() *httplimit.Gate { return e.gate(nil) }

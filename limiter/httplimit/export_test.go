package httplimit

// Reading returns the number of bodies that g is reading.
func (g *Gate) Reading() int64 { return g.reading.Load() }

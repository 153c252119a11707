package httplimit

// Reading returns the number of bytes of bodies that g is reading.
func (g *Gate) Reading() int {
	g.readers.mu.Lock()
	defer g.readers.mu.Unlock()
	return g.readers.all
}

// Readers returns the number of addresses from which g is reading bodies.
func (g *Gate) Readers() int {
	g.readers.mu.Lock()
	defer g.readers.mu.Unlock()
	return len(g.readers.of)
}

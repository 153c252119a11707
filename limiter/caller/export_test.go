package caller

// Remembered returns the numbers of cached known keys and cached unknown keys.
func (r *RemoteRecords) Remembered() (known, unknown int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known.Len(), r.unknown.Len()
}

// Reading returns the number of running reads.
func (r *RemoteRecords) Reading() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

// Verified returns the number of tokens that v keeps and their approximate size.
func (v *Verifier) Verified() (tokens, bytes int) {
	v.tokens.mu.Lock()
	defer v.tokens.mu.Unlock()
	return v.tokens.tokens.Len(), v.tokens.bytes
}

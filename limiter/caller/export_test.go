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

package caller

import "crypto/sha256"

// digest stands for an API key in memory.
type digest [sha256.Size]byte

// recent keeps what was last used, of a bounded number, in two generations: when the newer
// is full it becomes the older one, and what that held is forgotten.
type recent[V any] struct {
	half         int // the size of a generation
	newer, older map[digest]V
}

func newRecent[V any](most int) *recent[V] {
	return &recent[V]{half: most / 2, newer: map[digest]V{}}
}

func (r *recent[V]) get(id digest) (value V, ok bool) {
	if value, ok = r.newer[id]; ok {
		return value, true
	}
	if value, ok = r.older[id]; ok {
		r.put(id, value)
	}
	return value, ok
}

func (r *recent[V]) put(id digest, value V) {
	if _, ok := r.newer[id]; !ok && len(r.newer) >= r.half {
		r.newer, r.older = map[digest]V{}, r.newer
	}
	r.newer[id] = value
}

func (r *recent[V]) remove(id digest) {
	delete(r.newer, id)
	delete(r.older, id)
}

package caller

import "testing"

// What is in use stays, what is removed is gone from both generations, and what is put again
// makes no new one.
func TestRecent(t *testing.T) {
	id := func(i int) digest { return digest{byte(i)} }
	r := newRecent[int](4)
	r.put(id(1), 1)
	r.put(id(2), 2)
	for range 10 {
		r.put(id(2), 3) // full, and of those that are there
	}
	if _, ok := r.get(id(1)); !ok || len(r.older) != 0 {
		t.Errorf("putting what is there has made a generation of %d old", len(r.older))
	}
	r.put(id(3), 3)
	if len(r.newer) != 1 || len(r.older) != 2 {
		t.Fatalf("%d newer and %d older, want 1 and 2", len(r.newer), len(r.older))
	}
	r.remove(id(1))
	if _, ok := r.get(id(1)); ok {
		t.Error("what was removed from the older generation is there")
	}
	if v, ok := r.get(id(2)); !ok || v != 3 {
		t.Errorf("got %d, %t", v, ok)
	}
	r.remove(id(2)) // it is in both now
	if _, ok := r.get(id(2)); ok {
		t.Error("what was removed is there")
	}
	r.put(id(4), 4)
	r.put(id(5), 5)
	r.put(id(6), 6)
	r.put(id(7), 7)
	if _, ok := r.get(id(3)); ok {
		t.Error("what was not used is there")
	}
}

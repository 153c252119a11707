package httpclient

import (
	"hash/maphash"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// These constants bound the size of a book. A new entry in a full map evicts an arbitrary entry.
const (
	maxQuotas = 1024
	maxRoutes = 8192
)

// book maps requests to quotas. Its keys are hashes.
type book struct {
	maxWait  time.Duration
	refusals int
	seed     maphash.Seed

	mu     sync.Mutex
	routes map[uint64]uint64 // keys of quotas, by the key of a route
	quotas map[uint64]*quota
}

// route contains the keys that identify a request and the requests that may share its quota.
type route struct {
	caller uint64 // hash of the host and the credential
	own    uint64 // hash of caller, the method and the path
	beside uint64 // hash of caller, the method and the folder of the path
}

func newBook(maxWait time.Duration, refusals int) *book {
	return &book{maxWait: maxWait, refusals: refusals, seed: maphash.MakeSeed(), routes: map[uint64]uint64{}, quotas: map[uint64]*quota{}}
}

func (b *book) route(r *http.Request) route {
	caller := b.hash(0, r.URL.Scheme, r.URL.Host, r.Host, credential(r.Header.Get("Authorization")), r.Header.Get("X-Api-Key"))
	folder, _ := path.Split(r.URL.Path)
	return route{caller, b.hash(caller, r.Method, r.URL.Path), b.hash(caller, r.Method, folder, "*")}
}

// credential returns the part of Authorization that is the same for all requests of a caller. For an AWS
// signature this is only the key ID, because the signature differs for each request and the scope
// changes every day.
func credential(authorization string) string {
	if strings.HasPrefix(authorization, "AWS4-") {
		if _, id, ok := strings.Cut(authorization, "Credential="); ok {
			id, _, _ = strings.Cut(id, "/")
			return id
		}
	}
	return authorization
}

// hash returns the key of texts within the scope of the key above.
func (b *book) hash(above uint64, texts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(b.seed)
	maphash.WriteComparable(&h, above)
	for _, text := range texts {
		maphash.WriteComparable(&h, text)
	}
	return h.Sum64()
}

// find returns the quota that counts the requests of a route, according to the responses so far.
func (b *book) find(r route) *quota {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := b.routes[r.own]
	if !ok {
		key, ok = b.routes[r.beside]
	}
	if !ok {
		key = r.caller
	}
	q := b.quotas[key]
	if q == nil {
		q = newQuota(b.maxWait, b.refusals)
		put(b.quotas, key, q, maxQuotas)
	}
	return q
}

// assign records the name of the quota that counts the requests of a route.
func (b *book) assign(r route, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := b.hash(r.caller, name)
	put(b.routes, r.own, key, maxRoutes)
	put(b.routes, r.beside, key, maxRoutes)
}

// part gives a route that answered 503 its own quota. Other routes then do not wait for it.
func (b *book) part(r route) {
	b.mu.Lock()
	defer b.mu.Unlock()
	put(b.routes, r.own, b.hash(r.own), maxRoutes)
}

// rejoin undoes part, so that the route shares a quota again. Call it after a response other than 503 to a request
// that used the quota q.
func (b *book) rejoin(r route, q *quota) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own := b.hash(r.own); b.routes[r.own] == own && b.quotas[own] == q {
		delete(b.routes, r.own)
	}
}

// put sets the value of a key in a map. If the map is full, put first deletes any one entry.
func put[V any](m map[uint64]V, key uint64, value V, capacity int) {
	if _, ok := m[key]; !ok && len(m) >= capacity {
		for other := range m {
			delete(m, other)
			break
		}
	}
	m[key] = value
}

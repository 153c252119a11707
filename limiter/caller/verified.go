package caller

import (
	"sync"
	"weak"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// These constants bound the verified tokens that a Verifier caches.
const (
	maxVerified      = 2000
	maxVerifiedBytes = 4 << 20
	verifiedBytes    = 512 // estimated size of a token without claims
	claimBytes       = 64  // estimated size of a claim without its text
)

// verified is the cached part of a valid token.
type verified struct {
	keyID, algorithm string
	// key is a weak pointer, so that a cached token does not keep a replaced key set in memory. Weak
	// pointers to different objects are never equal, even after one of the objects is freed.
	key    weak.Pointer[jose.JSONWebKey]
	times  jwt.Claims // only the claims exp, nbf and iat
	claims Claims
	bytes  int
}

// sizeOf returns the estimated memory, in bytes, of a cached token with these claims.
func sizeOf(keyID string, claims Claims) int {
	n := verifiedBytes + len(keyID)
	for name, text := range claims.Text {
		n += claimBytes + len(name) + len(text)
	}
	return n
}

// verifiedTokens caches valid tokens by their hash. It evicts the least recently used token first. It
// is safe for concurrent use.
type verifiedTokens struct {
	mu     sync.Mutex
	tokens *simplelru.LRU[digest, *verified]
	bytes  int
}

func newVerifiedTokens() *verifiedTokens {
	t := &verifiedTokens{}
	t.tokens, _ = simplelru.NewLRU(maxVerified, func(_ digest, v *verified) { t.bytes -= v.bytes }) // NewLRU fails only for a size below 1
	return t
}

func (t *verifiedTokens) get(id digest) *verified {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, _ := t.tokens.Get(id)
	return v
}

func (t *verifiedTokens) add(id digest, v *verified) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens.Remove(id) // LRU.Add would replace the value without calling the eviction function
	t.tokens.Add(id, v)
	for t.bytes += v.bytes; t.bytes > maxVerifiedBytes; {
		t.tokens.RemoveOldest()
	}
}

func (t *verifiedTokens) remove(id digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens.Remove(id)
}

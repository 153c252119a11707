package caller

import (
	"sync"
	"weak"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Bounds of the verified tokens that a Verifier keeps.
const (
	maxVerified      = 2000
	maxVerifiedBytes = 4 << 20
	verifiedBytes    = 512 // of a token without claims
	claimBytes       = 64  // of a claim, without its text
)

// verified is what a Verifier keeps of a valid token.
type verified struct {
	keyID, algorithm string
	// key is weak, so that a token keeps no old key set in memory. Weak pointers to different
	// objects are never equal, not even after one of the objects is gone.
	key    weak.Pointer[jose.JSONWebKey]
	times  jwt.Claims // exp, nbf and iat alone
	claims Claims
	bytes  int
}

// sizeOf returns about how much memory a token with these claims uses, in bytes.
func sizeOf(keyID string, claims Claims) int {
	n := verifiedBytes + len(keyID)
	for name, text := range claims.Text {
		n += claimBytes + len(name) + len(text)
	}
	return n
}

// verifiedTokens are valid tokens, by the hash of the token. The least recently used are evicted first.
// It is safe for concurrent use.
type verifiedTokens struct {
	mu     sync.Mutex
	tokens *simplelru.LRU[digest, *verified]
	bytes  int
}

func newVerifiedTokens() *verifiedTokens {
	t := &verifiedTokens{}
	t.tokens, _ = simplelru.NewLRU(maxVerified, func(_ digest, v *verified) { t.bytes -= v.bytes }) // it fails for a size below 1 only
	return t
}

// get returns the token with a hash, nil if there is none.
func (t *verifiedTokens) get(id digest) *verified {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, _ := t.tokens.Get(id)
	return v
}

func (t *verifiedTokens) add(id digest, v *verified) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens.Remove(id) // LRU.Add would replace its value without a call of the eviction function
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

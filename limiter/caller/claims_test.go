package caller_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
)

// FuzzClaimNames_Of searches for claims that break the reader, or whose paths need much more memory than they have.
func FuzzClaimNames_Of(f *testing.F) {
	f.Add([]byte(`{"sub":"a","org":{"id":1,"x":[null,[2]]},"org.id":"b","":{"":{"":{"":{"":0}}}}}`))
	f.Add([]byte(strings.Repeat(`{"`+strings.Repeat("n", 200)+`":`, 9) + "0" + strings.Repeat("}", 9)))
	f.Fuzz(func(t *testing.T, claims []byte) {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(claims, &members)
		got, bytes := caller.ClaimNames{}.Of(members, nil), 0
		for path, values := range got.Values {
			if _, exact := members[path]; !exact && len(path) > 256 {
				t.Errorf("got a path of %d bytes, want at most 256", len(path))
			}
			bytes += len(strings.Join(values, ""))
		}
		if bytes > 3*len(claims) || got.User != "" && got.User != got.Values["sub"][0] {
			t.Errorf("got %d bytes and user %q from %q", bytes, got.User, claims)
		}
	})
}

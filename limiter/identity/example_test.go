package identity_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/identity"
)

// API keys are known by a keyed hash, and counted by their record.
func ExampleIdentifier_Caller() {
	secret := []byte("kept in a secret store")
	records := fmt.Sprintf(`[{"id":"k1","tier":"paid","hash":%q}]`, identity.HashAPIKey(secret, "the key of a customer"))
	keys, err := identity.ParseAPIKeys([]byte(records), secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	i := identity.New(identity.Options{APIKeys: keys})
	caller, err := i.Caller(context.Background(), time.Now(), identity.Credentials{APIKey: "the key of a customer", Address: identity.ParseAddress("203.0.113.7:4711")})
	fmt.Println(caller.Subject(), caller.Tier, caller.IP, err)
	_, err = i.Caller(context.Background(), time.Now(), identity.Credentials{APIKey: "a guess"})
	fmt.Println(errors.Is(err, limiter.ErrInvalidCredential))
	// Output:
	// apikey:k1 paid 203.0.113.7/32 <nil>
	// true
}

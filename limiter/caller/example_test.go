package caller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
)

// The keyed hash of an API key identifies its record. Limits count by the ID of the record.
func ExampleIdentifier_Caller() {
	secret := []byte("kept in a secret store")
	records := fmt.Sprintf(`[{"id":"k1","tier":"paid","hash":%q}]`, caller.HashAPIKey(secret, "the key of a customer"))
	keys, err := caller.ParseAPIKeys([]byte(records), secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	i := caller.New(caller.Options{APIKeys: keys})
	c, err := i.Caller(context.Background(), time.Now(), caller.Credentials{APIKey: "the key of a customer",
		Address: caller.ParseAddress("203.0.113.7:4711")})
	fmt.Println(c.Subject(), c.Tier, c.IP, err)
	_, err = i.Caller(context.Background(), time.Now(), caller.Credentials{APIKey: "weir_a-guess"})
	fmt.Println(errors.Is(err, caller.ErrInvalidCredential))
	// Output:
	// apikey:k1 paid 203.0.113.7/32 <nil>
	// true
}

package receipts_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-limits/weir/functions/receipts"
)

// An authorizer seals a receipt, and the function that knows the cost opens it.
func Example() {
	ring := receipts.Fixed("dev", receipts.NewKeys())
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	text, err := ring.Seal(context.Background(), now, []byte("charges"))
	if err != nil {
		panic(err)
	}
	receipt, err := ring.Open(context.Background(), now, text)
	fmt.Printf("%s, %v\n", receipt, err)
	_, err = ring.Open(context.Background(), now, text+"A")
	fmt.Println(err)
	// Output:
	// charges, <nil>
	// receipt: not valid
}

package rules_test

import (
	"fmt"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

func ExampleParse() {
	r, err := rules.Parse([]byte(`{"rules":[
		{"endpoint":"/items/{id}","method":"GET","limits":{"free":{"requests":10,"window":"1m"},"paid":{"requests":100,"window":"1m"}}}]}`),
		rules.Options{Version: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range r.Charges(nil, "GET", rules.EncodedPath("/items/5/"), caller.Caller{User: "alice", Tier: "paid"}) {
		fmt.Println(c.Subject, c.Limit.Name, c.Limit.Rate.Requests, c.Cost)
	}
	_, err = rules.Parse([]byte(`{"rules":[{"endpoint":"/items/","limits":{"free":{"requests":0,"window":"1m"}}}]}`), rules.Options{})
	fmt.Println(err)
	// Output:
	// user:alice items 100 1
	// line 1: rules[0].endpoint: got "/items/", want /items
	// line 1: rules[0].limits.free.requests: got 0, want a whole number from 1 to 1000000000; weir block refuses a caller
}

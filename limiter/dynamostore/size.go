package dynamostore

import (
	"fmt"
	"strconv"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// These are sizes in bytes. DynamoDB counts the bytes of names and text, and half a byte for each digit.
const (
	unitBytes = 1024          // size of one write unit
	itemMost  = 8 * unitBytes // largest size of an item with the instants of requests

	maxNamespace = 64 // longest namespace of a deployment
	// keyBytes is the size of the attributes that every item has: its key (namespace, format and
	// subject) and its time to live.
	keyBytes = 2 + maxNamespace + 3 + limiter.MaxSubject + 3 + 6

	nameBytes    = 9 // the name of an attribute: a letter and the limit's id
	versionBytes = nameBytes + 9
	instantBytes = nameBytes + 11
	refundsBytes = nameBytes + 6
	entryBytes   = 12
	stampBytes   = nameBytes + 3 + 12 + 10 + 4 // attribute of a log: a list of an instant, a generation and a length
	slotBytes    = 11                          // a member of the set of slots
)

// Items describes the items that a Store writes. It implements rules.Items.
type Items struct{}

// Misfit implements rules.Items. An item fits one write unit, or eight units with the instants of requests.
func (Items) Misfit(limits [][]algo.Rate) string {
	size, all := keyBytes, 0
	for _, rates := range limits {
		mostFixed, mostInstants := 0, 0
		for _, r := range rates {
			fixed, instants := sizeOf(r)
			mostFixed, mostInstants = max(mostFixed, fixed), max(mostInstants, instants)
		}
		size, all = size+mostFixed, all+mostInstants
	}
	switch {
	case size > unitBytes:
		return fmt.Sprintf("take up to %d bytes, want at most %d (one write unit)", size, unitBytes)
	case all > 0 && size+all > itemMost:
		return fmt.Sprintf("take up to %d bytes, want at most %d (%d write units)", size+all, itemMost, itemMost/unitBytes)
	}
	return ""
}

// sizeOf returns the largest size, in bytes, of a limit with a rate in an item. instants is the size of the instants of
// requests, and fixed the size of all else. Both are 0 if the rate is invalid.
func sizeOf(r algo.Rate) (fixed, instants int) {
	m, err := algo.New(r)
	if err != nil {
		return 0, 0
	}
	fixed, instants = layoutOf(m).size(r, m)
	return versionBytes + nameBytes + len(m.Fingerprint()) + fixed, instants
}

// numberBytes returns the largest size, in bytes, that a number from 0 to n has in DynamoDB.
func numberBytes(n int64) int { return 1 + (digits(n)+1)/2 }

func digits(n int64) int { return len(strconv.FormatInt(n, 10)) }

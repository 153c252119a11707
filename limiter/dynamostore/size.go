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
	slotBytes    = 8 + 1 + 11                  // a member of the map of slots: its key and the instant of the request
)

// Items has the sizes of the items that a Store writes. It implements rules.Items.
type Items struct{}

// Size returns the largest size, in bytes, of a limit with a rate in an item. instants is the size of the instants of
// requests, and fixed the size of all else. Both are 0 if the rate is invalid.
func (Items) Size(r algo.Rate) (fixed, instants int) {
	m, err := algo.New(r)
	if err != nil {
		return 0, 0
	}
	fixed, instants = layoutOf(m).size(r, m)
	return versionBytes + nameBytes + len(m.Fingerprint()) + fixed, instants
}

// Misfit returns by how many bytes an item with limits of these sizes is too large, and a description of the problem.
// An item fits one write unit, or eight units with the instants of requests. If the limits fit, Misfit returns 0 and "".
func (Items) Misfit(fixed, instants int) (excess int, problem string) {
	if size := keyBytes + fixed; size > unitBytes {
		return size - unitBytes, fmt.Sprintf("take up to %d bytes, want at most %d (one write unit)", size, unitBytes)
	} else if size += instants; instants > 0 && size > itemMost {
		return size - itemMost, fmt.Sprintf("take up to %d bytes, want at most %d (%d write units)", size, itemMost, itemMost/unitBytes)
	}
	return 0, ""
}

// Units returns the largest number of write units that a write of an item with limits of these sizes costs.
func (Items) Units(fixed, instants int) int {
	return (keyBytes + fixed + instants + unitBytes - 1) / unitBytes
}

// numberBytes returns the largest size, in bytes, that a number from 0 to n has in DynamoDB.
func numberBytes(n int64) int { return 1 + (digits(n)+1)/2 }

func digits(n int64) int { return len(strconv.FormatInt(n, 10)) }

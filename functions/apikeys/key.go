package apikeys

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
)

// prefix precedes the hash in the partition key of an API key.
const prefix = contract.APIKeyPrefix

// These are the attributes of the item of an API key.
const (
	idAttribute        = "id"
	tierAttribute      = "tier"
	ownerAttribute     = "owner"
	createdAttribute   = "created"
	limitsAttribute    = "limits"    // JSON form of caller.Limits
	suspendedAttribute = "suspended" // an item with this attribute is suspended, for any value of the attribute
)

// Key is an API key as stored in the table.
type Key struct {
	// ID identifies the caller: 1 to 64 letters, digits, _, . and -. Keys with the same ID share the
	// limits of one caller.
	ID    string `json:"id"`
	Tier  string `json:"tier,omitempty"`  // empty means the default tier
	Owner string `json:"owner,omitempty"` // free text for operators: at most 256 bytes of printable text
	// Suspended rejects requests with the key. The answer is 401.
	Suspended bool `json:"suspended,omitempty"`
	// Limits are the caller's own limits; nil if they were never set. All keys of an ID have the same limits.
	// If the item has a mistake in its limits, Limits.Mistake describes it.
	Limits *caller.Limits `json:"limits,omitempty"`
	// Created is the time of creation, to the second.
	Created time.Time `json:"created"`
	// Hash is the first part of the key's hash. It distinguishes keys with the same ID.
	Hash string `json:"hash"`
}

// hashDigits is the number of hexadecimal digits in Key.Hash.
const hashDigits = 12

// maxOwner is the length of the longest Key.Owner, in bytes.
const maxOwner = 256

// validate returns an error for the first invalid field.
func (k Key) validate() error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case !contract.IsName(k.ID, 1, 64):
		return fmt.Errorf("id: got %.80q, want 1 to 64 letters, digits, _, . and -", k.ID)
	case k.Tier != "" && !isTier(k.Tier):
		return fmt.Errorf("tier: got %.80q, want 1 to 64 letters, digits, _, . and -, but not global", k.Tier)
	case len(k.Owner) > maxOwner || !utf8.ValidString(k.Owner) || strings.ContainsFunc(k.Owner, unprintable):
		return fmt.Errorf("owner: got %.80q, want at most %d bytes of printable text", k.Owner, maxOwner)
	}
	return nil
}

// isTier reports whether s is the name of a tier, as in a rules document.
func isTier(s string) bool {
	return contract.IsName(s, 1, 64) && strings.TrimLeft(s, "_.-") == s && s != "global"
}

// item returns the item of a key. hash is the whole hash.
func (k Key) item(hash string) records.Item {
	item := records.NewItem(prefix + hash)
	item.SetText(idAttribute, k.ID)
	item.SetText(tierAttribute, k.Tier)
	item.SetText(ownerAttribute, k.Owner)
	if k.Suspended {
		item.SetText(suspendedAttribute, "true")
	}
	if k.Limits != nil {
		item.SetText(limitsAttribute, k.Limits.Text())
	}
	item.SetText(createdAttribute, k.Created.UTC().Format(time.RFC3339))
	return item
}

// parseKey parses the item of a key. It validates every field, because people edit items by hand. If
// it returns an error, it also returns the fields that it could parse.
func parseKey(item records.Item) (Key, error) {
	hash := strings.TrimPrefix(item.Text(contract.KeyAttribute), prefix)
	k := Key{ID: item.Text(idAttribute), Tier: item.Text(tierAttribute), Owner: item.Text(ownerAttribute),
		Hash: hash[:min(len(hash), hashDigits)]}
	k.Created, _ = time.Parse(time.RFC3339, item.Text(createdAttribute)) // no decision depends on Created, so it is not validated
	_, k.Suspended = item[suspendedAttribute]
	if _, ok := item[limitsAttribute]; ok {
		k.Limits = caller.ParseLimits(item.Text(limitsAttribute)) // a mistake in the limits does not make the key invalid
	}
	if err := k.validate(); err != nil {
		return k, fmt.Errorf("records table: item %s%s: %w", prefix, k.Hash, err)
	}
	return k, nil
}

// ItemOf returns the item of a key with this record.
func ItemOf(r caller.Record) records.Item {
	return Key{ID: r.ID, Tier: r.Tier, Owner: r.Owner, Suspended: r.Suspended, Limits: r.Limits, Created: r.Created}.item(r.Hash)
}

// RecordOf returns the record in the item of a key. With an error, it also returns the fields that it could parse.
func RecordOf(item records.Item) (caller.Record, error) {
	k, err := parseKey(item)
	hash := strings.TrimPrefix(item.Text(contract.KeyAttribute), prefix)
	return caller.Record{ID: k.ID, Hash: hash, Tier: k.Tier, Owner: k.Owner, Suspended: k.Suspended, Limits: k.Limits, Created: k.Created}, err
}

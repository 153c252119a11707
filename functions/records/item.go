package records

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
)

// The partition keys, except contract.SigningKeysKey.
const (
	apiKeyPrefix = "apikey#"
	secretsKey   = "secrets"
)

// The attributes of items.
const (
	idAttribute       = "id"
	tierAttribute     = "tier"
	ownerAttribute    = "owner"
	createdAttribute  = "created"
	currentAttribute  = "current"
	previousAttribute = "previous"
	rotatedAttribute  = "rotated"
	jwksAttribute     = "jwks"
	fetchedAttribute  = "fetched"
)

// secretBytes is the length of a secret.
const secretBytes = 32

// Key is an API key as the table knows it.
type Key struct {
	ID    string `json:"id"` // what is counted: 1 to 64 letters, digits, _, . and -
	Tier  string `json:"tier,omitempty"`
	Owner string `json:"owner,omitempty"` // for people
	// Created is when the key was made, to the second.
	Created time.Time `json:"created"`
	// Hash is the beginning of the key's hash: it tells the keys of one id apart.
	Hash string `json:"hash"`
}

// hashDigits is the length of Key.Hash.
const hashDigits = 12

var (
	validID   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	validTier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`) // as in a rules document
)

// maxOwner is the length of the longest Key.Owner, in bytes.
const maxOwner = 256

// validate says what is wrong with a key, in one line.
func (k Key) validate() error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case !validID.MatchString(k.ID):
		return fmt.Errorf("id: got %.80q, want 1 to 64 letters, digits, _, . and -", k.ID)
	case k.Tier != "" && (!validTier.MatchString(k.Tier) || k.Tier == "global"):
		return fmt.Errorf("tier: got %.80q, want 1 to 64 letters, digits, _, . and -, and not global", k.Tier)
	case len(k.Owner) > maxOwner || !utf8.ValidString(k.Owner) || strings.ContainsFunc(k.Owner, unprintable):
		return fmt.Errorf("owner: got %.80q, want at most %d bytes of printable text", k.Owner, maxOwner)
	}
	return nil
}

// item is an item of the table.
type item map[string]types.AttributeValue

func keyOf(key string) item {
	return item{contract.KeyAttribute: &types.AttributeValueMemberS{Value: key}}
}

// set sets an attribute, unless it would be empty.
func (it item) set(name, text string) {
	if text != "" {
		it[name] = &types.AttributeValueMemberS{Value: text}
	}
}

// text returns an attribute that is a string, "" if there is none.
func (it item) text(name string) string {
	if s, ok := it[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// itemOf returns the item of a key with this hash.
func itemOf(hash string, k Key) item {
	it := keyOf(apiKeyPrefix + hash)
	it.set(idAttribute, k.ID)
	it.set(tierAttribute, k.Tier)
	it.set(ownerAttribute, k.Owner)
	it.set(createdAttribute, k.Created.UTC().Format(time.RFC3339))
	return it
}

// key reads the item of a key. What somebody else wrote by hand is checked as what is
// written here. With an error the Key has what could be read.
func (it item) key() (Key, error) {
	hash := strings.TrimPrefix(it.text(contract.KeyAttribute), apiKeyPrefix)
	k := Key{ID: it.text(idAttribute), Tier: it.text(tierAttribute), Owner: it.text(ownerAttribute), Hash: hash[:min(len(hash), hashDigits)]}
	k.Created, _ = time.Parse(time.RFC3339, it.text(createdAttribute)) // for people
	if err := k.validate(); err != nil {
		return k, fmt.Errorf("records table: item %s%s: %w", apiKeyPrefix, k.Hash, err)
	}
	return k, nil
}

// secretsOf returns the item of the secrets: of a current one alone, or also the one that it
// has replaced, at rotated.
func secretsOf(current, previous []byte, rotated time.Time) item {
	it := keyOf(secretsKey)
	it[currentAttribute] = &types.AttributeValueMemberB{Value: current}
	if previous != nil {
		it[previousAttribute] = &types.AttributeValueMemberB{Value: previous}
		it.set(rotatedAttribute, rotated.UTC().Format(time.RFC3339))
	}
	return it
}

// secrets reads the item of the secrets: the current one, and the one before if there is
// one.
func (it item) secrets() ([][]byte, error) {
	var all [][]byte
	for _, name := range []string{currentAttribute, previousAttribute} {
		value, there := it[name]
		if !there && name == previousAttribute {
			continue
		}
		b, ok := value.(*types.AttributeValueMemberB)
		if !ok || len(b.Value) != secretBytes {
			return nil, fmt.Errorf("records table: item %s: %s is not %d bytes", secretsKey, name, secretBytes)
		}
		all = append(all, b.Value)
	}
	return all, nil
}

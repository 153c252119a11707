package edge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// ConfigKey is the key of the Config in the list.
const ConfigKey = "config"

// These are limits of CloudFront on a KeyValueStore:
// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cloudfront-limits.html#limits-functions
const (
	MaxList    = 5 << 20 // bytes of all keys and values
	MaxValue   = 1 << 10 // bytes of a value
	MaxChanges = 50      // keys in a call
	MaxPage    = 50      // keys in an answer
)

// Config is what the viewer function knows of the rules.
type Config struct {
	Version      int64    `json:"v"` // of the rules. Entries of other versions do not act
	Secret       string   `json:"k"` // hashes subjects; everybody who reads the list can read it
	APIKeyHeader string   `json:"h"` // name of the field of API keys, in lower case; "" for none
	IPv6Bits     int      `json:"b"`
	Pass         []string `json:"p"` // endpoints that pass: exempt ones, and the usage endpoint
	Below        int      `json:"d"` // segments that a stage or a base path can add before them, at most
	// Origins are the origins whose pages may read answers, in lower case. The only element "*" means every origin.
	Origins []string `json:"o,omitempty"`
	// Credentials lets requests with a credential pass, because the rules exempt users or API keys.
	Credentials bool `json:"c"`
}

// Value returns the value of ConfigKey. ok is false if it does not fit. Then nothing may be listed.
func (c Config) Value() (value string, ok bool) {
	if c.Pass == nil {
		c.Pass = []string{}
	}
	text, err := json.Marshal(c)
	return string(text), err == nil && len(text) <= MaxValue
}

// Address returns the subject of an address.
func (c Config) Address(addr netip.Addr) string {
	if addr = addr.Unmap(); addr.Is4() {
		return "ip:" + addr.String()
	}
	network := netip.PrefixFrom(addr, c.IPv6Bits).Masked().Addr().As16()
	groups := make([]string, len(network)/2)
	for i := range groups {
		groups[i] = strconv.FormatUint(uint64(network[2*i])<<8|uint64(network[2*i+1]), 16)
	}
	return "ip:" + strings.Join(groups, ":") + "/" + strconv.Itoa(c.IPv6Bits)
}

// APIKey returns the subject of an API key.
func APIKey(key string) string { return "key:" + key }

// keyLength is the length of a key of the list: 132 bits.
const keyLength = 22

// Key returns the key of a subject's entry.
func (c Config) Key(subject string) string {
	mac := hmac.New(sha256.New, []byte(c.Secret))
	mac.Write([]byte(subject))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))[:keyLength]
}

// ownerLength is the length of an owner: 48 bits, because a collision only removes one entry too many.
const ownerLength = 8

// Owner returns the name under which the entries of an id's API keys are found. An entry has the hash of a key, from
// which nobody can find its id.
func (c Config) Owner(id string) string { return c.Key("id:" + id)[:ownerLength] }

// Entry is a refusal in the list.
type Entry struct {
	Until    time.Time // when the caller is admitted again
	Version  int64     // of the rules
	Name     string    // of the limit
	Capacity int64
	Requests int64
	Window   time.Duration // a whole number of seconds
	Reset    time.Time     // when the quota is full again; Until, if it is earlier
	Period   bool          // the wait ends with a period of a calendar, so it has no jitter
	Owner    string        // of the API key (Config.Owner); "" for an address
	Refused  time.Time     // when the limiter refused; the value does not have it
}

// base is the base of the numbers in a value. 40,000 entries with the largest numbers fit a list.
const base = 36

// Value returns the value of the entry. Until is in milliseconds and rounded down, and Reset is in seconds and rounded up.
func (e Entry) Value() string {
	reset := e.Until
	if e.Reset.After(reset) {
		reset = e.Reset
	}
	number := func(n int64) string { return strconv.FormatInt(n, base) }
	fields := []string{number(e.Until.UnixMilli()), number(e.Version), number(e.Capacity), number(e.Requests), number(int64(e.Window / time.Second)), e.Name, number(reset.Add(time.Second - 1).Unix())}
	if e.Period {
		fields = append(fields, "p")
	}
	if e.Owner != "" {
		fields = append(fields, e.Owner)
	}
	return strings.Join(fields, " ")
}

// in reports whether a value refuses for at least as long as the entry, under the same rules.
func (e Entry) in(value string) bool {
	fields := strings.Fields(value)
	until, ok := UntilOf(value)
	return ok && len(fields) > 1 && fields[1] == strconv.FormatInt(e.Version, base) && !until.Before(e.Until.Truncate(time.Millisecond))
}

// UntilOf returns the time until which the entry with a value acts. ok is false for other values.
func UntilOf(value string) (until time.Time, ok bool) {
	text, _, _ := strings.Cut(value, " ")
	ms, err := strconv.ParseInt(text, base, 64)
	return time.UnixMilli(ms), err == nil
}

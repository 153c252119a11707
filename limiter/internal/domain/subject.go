package domain

import (
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strconv"
	"strings"
)

// Subject is the caller or thing that is counted: "user:42", "ip:2001:db8:1::/64", "global". It is the
// atomic unit of a store: one DynamoDB item, one Redis key. The zero value is invalid. Subjects are
// comparable, and equal subjects share their counts.
//
// Every part is escaped, so no caller can construct the subject of another caller. The SHA-256 of a part
// replaces a part longer than 128 bytes. The same is true for a subject longer than MaxSubject.
// Therefore, keys are short for any content of a token.
type Subject struct {
	kind kind
	name string // text of the subject after the prefix of its kind; for kind other, the whole text
}

// kind is the kind of a subject. For a kind with a prefix, the name of a Subject is only the ID.
type kind uint8

const (
	other kind = iota
	user
	apiKey
	ip
)

// prefixes are the prefixes of the texts of subjects, by kind.
var prefixes = [...]string{other: "", user: "user:", apiKey: "apikey:", ip: "ip:"}

// MaxSubject is the length of the longest Subject in bytes, including the parts that shadow limits and
// shards add.
const MaxSubject = 144

// String returns the subject as it appears in the keys of a store.
func (s Subject) String() string { return prefixes[s.kind] + s.name }

// SubjectOf returns the subject whose String is text. text MUST come from String, because SubjectOf escapes nothing.
func SubjectOf(text string) Subject {
	for k, prefix := range prefixes {
		if name, ok := strings.CutPrefix(text, prefix); ok && kind(k) != other && !strings.Contains(text, separator) {
			return Subject{kind(k), name}
		}
	}
	return Subject{other, text}
}

// StateFormat is the version of the state in stores, and a part of its keys. After a change, no store reads the state from
// before, and all counts restart.
const StateFormat = "4"

// Key returns the key of s in a store. namespace separates deployments.
func (s Subject) Key(namespace string) string {
	return namespace + "/" + StateFormat + "/" + prefixes[s.kind] + s.name
}

// Clone returns a subject equal to s. It shares no memory with the text of a request.
func (s Subject) Clone() Subject { return Subject{s.kind, strings.Clone(s.name)} }

// User returns the subject of a user, by the user ID of a verified token.
func User(id string) Subject { return Subject{user, escape(id)} }

// APIKey returns the subject of an API key, by the ID of its record. Never pass the key itself.
func APIKey(id string) Subject { return Subject{apiKey, escape(id)} }

// IP returns the subject of a client's address: a single IPv4 address or an IPv6 network. The zero prefix
// is an unknown address, which is a separate subject.
func IP(prefix netip.Prefix) Subject {
	switch {
	case !prefix.IsValid():
		return Subject{ip, "unknown"}
	case prefix.IsSingleIP():
		return Subject{ip, prefix.Addr().String()}
	}
	return Subject{ip, prefix.String()}
}

// Claim returns the subject of a claim's value in a verified token, for example of an organisation.
func Claim(name, value string) Subject {
	return bounded("claim:" + escape(name) + "=" + escape(value))
}

// PathParameter returns the subject of a parameter's value in the path of a request.
func PathParameter(name, value string) Subject {
	return bounded("path:" + escape(name) + "=" + escape(value))
}

// Method returns the subject of a request's method.
func Method(method string) Subject { return bounded("method:" + escape(method)) }

// Header returns the subject of a header field's value. name is in lower case. Combine the subject with
// an identity, because a client can choose any value.
func Header(name, value string) Subject {
	return bounded("header:" + escape(name) + "=" + escape(value))
}

// Endpoint returns the subject of all callers of an endpoint together. An empty method means any method.
func Endpoint(method, pattern string) Subject {
	return bounded("endpoint:" + escape(method) + ":" + escape(pattern))
}

// Global returns the subject of all requests together.
func Global() Subject { return Subject{other, "global"} }

// Custom returns a subject that the application defines, for example the user name of a login. kind
// separates it from other custom subjects.
func Custom(kind, value string) Subject {
	return bounded("custom:" + escape(kind) + "=" + escape(value))
}

// separator stands between the subjects of a combination.
const separator = "|"

// And returns the subject that combines s and t. Each pair of values has a separate count.
func (s Subject) And(t Subject) Subject {
	return bounded(prefixes[s.kind] + s.name + separator + prefixes[t.kind] + t.name)
}

// Shard returns the subject of shard i of a limit that counts s in shards.
func (s Subject) Shard(i int) Subject { return s.And(Subject{other, "shard:" + strconv.Itoa(i)}) }

func bounded(name string) Subject {
	if len(name) > MaxSubject {
		name = hashed(name)
	}
	return Subject{other, name}
}

// hashed returns the SHA-256 of text. It begins with a byte that no escaped part contains.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "~" + base64.RawURLEncoding.EncodeToString(sum[:])
}

const (
	plain   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@+,/:"
	maxPart = 128
)

var isPlain = func() (set [256]bool) {
	for _, c := range []byte(plain) {
		set[c] = true
	}
	return set
}()

// allPlain reports whether all bytes of part are in plain. It tests four bytes at a time.
func allPlain(part string) bool {
	for len(part) >= 4 {
		if !isPlain[part[0]] || !isPlain[part[1]] || !isPlain[part[2]] || !isPlain[part[3]] {
			return false
		}
		part = part[4:]
	}
	for i := range len(part) {
		if !isPlain[part[i]] {
			return false
		}
	}
	return true
}

// escape replaces every byte that is not in plain by %XX. Among them are the separators of a subject and
// the braces of a Redis hash tag.
func escape(part string) string {
	if len(part) <= maxPart && allPlain(part) {
		return part
	}
	extra := 0
	for i := range len(part) {
		if !isPlain[part[i]] {
			extra += 2
		}
	}
	if len(part)+extra > maxPart {
		return hashed(part)
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(part) + extra)
	for i := range len(part) {
		if c := part[i]; isPlain[c] {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

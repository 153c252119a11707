package caller

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Claims describe a caller: the claims of a verified token, or what the host of a request has verified.
type Claims struct {
	User string
	// Tiers are the values of the tier's claim: none, one tier, or the elements of a list.
	Tiers []string
	// Values are the values of claims by their path; see [ClaimNames]. Text, a number or a boolean is one value, as the
	// token spells it, so the number 42 and the string "42" are equal. A list has several. An object, a list of other
	// values and a number of more than 20 characters cannot count, and have none. An empty claim is absent. Requests share
	// the map: do not change it.
	Values map[string][]string
}

// ClaimNames name claims by their paths: the exact name, such as cognito:groups or https://example.com/tier, or the
// names of objects and a claim in them, such as realm_access.roles. An exact name takes precedence.
type ClaimNames struct {
	User string // path of the claim with the user; "" means sub
	Tier string // path of the claim with the tier; "" means tier
	// Others are the paths of claims by further names, which rules can use in "per".
	Others map[string]string
}

// Of returns the Claims in the members of a JSON object. unlist returns the elements of a list that a host has made a
// text, and ok for such a text; nil means that texts are no lists. User is "" unless its claim has one value.
func (n ClaimNames) Of(members map[string]json.RawMessage, unlist func(name, text string) (list []string, ok bool)) Claims {
	c := Claims{Values: make(map[string][]string, len(members))}
	c.add(members, "", 1)
	if user := c.Values[cmp.Or(n.User, "sub")]; len(user) == 1 { // no list: the user who chose the name [bob] would count as bob
		c.User = user[0]
	}
	for name, values := range c.Values {
		if unlist == nil || len(values) != 1 {
			continue
		}
		list, ok := unlist(name, values[0])
		switch {
		case ok && len(list) == 0:
			delete(c.Values, name)
		case ok:
			c.Values[name] = list
		}
	}
	for name, path := range n.Others {
		if values, ok := c.Values[path]; ok {
			c.Values[name] = values
		}
	}
	c.Tiers = c.Values[cmp.Or(n.Tier, "tier")]
	return c
}

// These constants bound paths and values.
const (
	maxLevels = 4   // of objects
	maxPath   = 256 // bytes of a path of several names
	maxNumber = 20  // characters: 64 bits and a sign
)

// add adds the members of an object whose path is prefix, and then those of objects in it.
func (c *Claims) add(members map[string]json.RawMessage, prefix string, level int) {
	var objects []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		path := prefix + name
		if _, exact := c.Values[path]; exact || level > 1 && len(path) > maxPath {
			continue
		}
		values, counts := valuesOf(members[name])
		if !counts || len(values) > 0 {
			c.Values[path] = values
		}
		if bytes.HasPrefix(members[name], []byte("{")) && level < maxLevels {
			objects = append(objects, name)
		}
	}
	for _, name := range objects {
		var inner map[string]json.RawMessage
		if json.Unmarshal(members[name], &inner) == nil {
			c.add(inner, prefix+name+".", level+1)
		}
	}
}

// valuesOf returns the values of a claim. counts is false if it has a form that cannot count.
func valuesOf(claim json.RawMessage) (values []string, counts bool) {
	list := []json.RawMessage{claim}
	if bytes.HasPrefix(claim, []byte("[")) {
		list = nil
		if json.Unmarshal(claim, &list) != nil {
			return nil, false
		}
	}
	for _, value := range list {
		text, ok := textOf(value)
		if !ok {
			return nil, false
		}
		if text != "" {
			values = append(values, text)
		}
	}
	return values, true
}

// textOf returns the text of a string, a number or a boolean, and "" for null. ok is false for other values, and for a
// number that is too large.
func textOf(value json.RawMessage) (text string, ok bool) {
	switch text = string(value); {
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		return "", false
	case text == "null":
		return "", true
	case strings.HasPrefix(text, `"`):
		err := json.Unmarshal(value, &text)
		return text, err == nil
	}
	return text, len(text) <= maxNumber
}

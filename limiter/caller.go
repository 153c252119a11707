package limiter

import "net/netip"

// Caller is who sent a request, as far as it was verified. The zero value is an
// anonymous caller from an unknown address.
type Caller struct {
	User   string            // verified token's subject; "" without one
	APIKey string            // id of the API key's record; "" without one
	IP     netip.Prefix      // address, IPv6 shortened to its network
	Tier   string            // plan; "" lets the rules choose their default
	Claims map[string]string // the verified token's claims that are text, numbers or booleans, as text

	// Rejected says that a credential was bad. Nothing that it claimed is in the
	// other fields, and only limits that count by address are charged.
	Rejected bool
}

// Subject returns the strongest verified identity: the user, else the API key,
// else the address.
func (c Caller) Subject() Subject {
	switch {
	case c.User != "":
		return User(c.User)
	case c.APIKey != "":
		return APIKey(c.APIKey)
	}
	return IP(c.IP)
}

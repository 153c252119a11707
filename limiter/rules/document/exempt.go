package document

import "net/netip"

const maxExemptions = 1000

// Exemption selects requests that no rule counts.
type Exemption struct {
	// Identity has the Kind PerUser, PerAPIKey, PerIP or PerEndpoint. With PerEndpoint, Value is an endpoint, which Parse
	// does not validate. With PerAPIKey, it is the id of the key's record.
	Identity

	Path string // place in the document, such as "exempt[3]"
	Name string // name in metrics; the default is Kind
}

// exemptKinds are the members that select requests. An exemption has exactly one of them.
var exemptKinds = []string{PerIP, PerUser, PerAPIKey, PerEndpoint}

func (d *Document) readExemptions(n *node) {
	for _, item := range d.elements(n, maxExemptions, "exemptions") {
		if e, ok := d.readExemption(item); ok {
			d.Exempt = append(d.Exempt, e)
		}
	}
}

// readExemption reads an exemption. ok is false if it has mistakes.
func (d *Document) readExemption(n *node) (e Exemption, ok bool) {
	before := d.Mistakes()
	o := n.objectLike(&d.report, `{"endpoint": "/health"}`)
	e.Path = n.path()
	for _, kind := range exemptKinds {
		value := o.member(kind)
		if value == nil {
			continue
		}
		if e.Kind != "" {
			d.report.at(value, "got %s and %s, want one of them", e.Kind, kind)
		}
		e.Kind = kind
		e.Value, e.Network = d.readExempt(o, value, kind)
	}
	if e.Kind == "" && n.kind == isObject {
		d.report.at(n, "exempts nothing, want a member %s", AnyOf(exemptKinds))
	}
	e.Name = e.Kind
	if name := o.member("name"); name != nil {
		e.Name = o.name(name)
	}
	o.text(o.member("note"))
	o.done()
	return e, d.Mistakes() == before && !d.report.more
}

// readExempt reads the value that selects the requests of an exemption. of is the network of an exemption of
// addresses.
func (d *Document) readExempt(o *object, n *node, kind string) (value string, of netip.Prefix) {
	value, ok := o.text(n)
	switch {
	case !ok:
	case value == "":
		d.report.at(n, "is empty")
	case kind == PerEndpoint && value == "*":
		d.report.at(n, `got "*", want a path; "mode": "shadow" stops the enforcement of all limits`)
	case kind == PerIP:
		of, ok = network(value)
		d.noteHost(n, value, of)
		if !ok {
			d.report.at(n, "got %s, %s", n, wantNetwork)
		}
	}
	return value, of
}

package document

const maxExemptions = 1000

// Exemption selects requests that no rule counts.
type Exemption struct {
	// Identity has the Kind PerUser, PerAPIKey, PerIP or PerEndpoint. With PerEndpoint, Value is an endpoint, which Parse
	// does not validate. With PerAPIKey, it is the id of the key's record.
	Identity

	Path string `json:"path"` // place in the document, such as "exempt[3]"
	Name string `json:"name"` // name in metrics; the default is Kind
}

// exemptKinds are the members that select requests. An exemption has exactly one of them.
var exemptKinds = []string{PerIP, PerUser, PerAPIKey, PerEndpoint}

func (d *Document) readExemptions(n *node) {
	for _, item := range d.values(n, 0, maxExemptions, "exemptions", `[{"endpoint": "/health"}]`) {
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
	e.Identity, _ = d.readIdentity(o, exemptKinds)
	if e.Kind == PerEndpoint && e.Value == "*" {
		d.report.at(o.get(PerEndpoint), `got "*", want a path; "mode": "shadow" stops the enforcement of all limits`)
	}
	e.Name = e.Kind
	if name := o.member("name"); name != nil {
		e.Name = o.name(name)
	}
	o.text(o.member("note"))
	o.done()
	return e, d.Mistakes() == before && !d.report.more
}

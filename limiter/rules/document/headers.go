package document

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// These constants bound the header fields that select the requests of a rule.
const (
	maxHeaders = 8
	maxOfField = 100
	maxField   = 256 // bytes of a value
)

// Field is a header field that selects the requests of a rule.
type Field struct {
	Name   string   // canonical
	Values []string // exact, or a beginning and *; at least one
}

const wantValues = `want a value, one that ends with *, or a list of values, such as ["search_*", "fetch"]`

// readHeaders reads the header fields of a rule, sorted by name. n may be nil.
func (d *Document) readHeaders(n *node) (list []Field) {
	if n == nil {
		return nil
	}
	n.objectLike(&d.report, `{"mcp-method": "tools/call"}`)
	if n.kind == isObject && (len(n.children) == 0 || len(n.children) > maxHeaders) {
		d.report.at(n, "got %d fields, want 1 to %d", len(n.children), maxHeaders)
		return nil
	}
	for _, m := range n.members() {
		f, word := Field{Name: http.CanonicalHeaderKey(m.key)}, PerHeader+strings.ToLower(m.key)
		switch {
		case isReserved(word):
			d.report.at(m, "got %s, want another field: %s", Shorten(m.key), reservedFields)
		case !isHeader(word):
			d.report.at(m, "got %s, want the name of a header field", Shorten(m.key))
		case slices.ContainsFunc(list, func(other Field) bool { return other.Name == f.Name }):
			d.report.at(m, "got the field %s twice", strings.ToLower(f.Name))
		}
		items := []*node{m}
		if m.kind == isList {
			items = m.children
		}
		if len(items) == 0 || len(items) > maxOfField {
			d.report.at(m, "got %d values, want 1 to %d", len(items), maxOfField)
		}
		for _, item := range items {
			value, ok := item.value.(string)
			switch beginning := strings.TrimSuffix(value, "*"); {
			case !ok || value == "" || len(value) > maxField || strings.Contains(beginning, "*"):
				d.report.at(item, "got %s, %s", item, wantValues)
			case strings.HasPrefix(f.Name, "Mcp-"): // a value with spaces can come encoded, or from the body
				if strings.HasPrefix(strings.ToLower(value), "=?base64?") {
					d.report.at(item, "got %s, want the decoded value", item)
				}
			case value != strings.TrimSpace(value) || strings.ContainsFunc(value, unicode.IsControl):
				d.report.at(item, "got %s, want a value without spaces around it and control characters; no field has one", item)
			}
			f.Values = append(f.Values, value)
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

package account

import (
	"slices"
	"strings"
	"testing"
)

// A domain that adds no path is ambiguous only if another domain adds one.
func TestMissing(t *testing.T) {
	for _, c := range []struct{ list, mapped, want string }{
		{"", "", ""}, {"", ",v1", "v1"}, {"/v1", ",v1", ""}, {"/v1", "v1", ""}, {"/v1,/v1/eu", "v1/eu", ""}, {"/v1/eu", "v1", "v1"},
		{"/v1,/", ",v1", ""}, {"/v2,/", "", ""},
	} {
		got := missing(strings.FieldsFunc(c.list, func(r rune) bool { return r == ',' }), strings.Split(c.mapped, ","))
		if strings.Join(got, ",") != c.want {
			t.Errorf("%s with mappings %q: got %q, want %q", c.list, c.mapped, got, c.want)
		}
	}
	if got := missing([]string{"/v2"}, []string{""}); !slices.Equal(got, []string{""}) {
		t.Errorf("path of another domain: got %q, want the empty path", got)
	}
}

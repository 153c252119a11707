package viewer_test

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/viewer"
	"github.com/weir-limits/weir/limiter/storetest"
)

var edge = netip.MustParseAddr("192.0.2.1") // the server of the distribution

const secret, before = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

func finder(source string) *viewer.Finder {
	return viewer.New(storetest.Must(viewer.Parse(source)), secret, before, slog.New(slog.DiscardHandler))
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{"": "host", "host": "host", "cloudfront": "cloudfront", "hops:1": "hops:1",
		"hops:16": "hops:16"} {
		if got, err := viewer.Parse(text); err != nil || got.String() != want {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"CloudFront", "hops", "hops:", "hops:0", "hops:-1", "hops:+1", "hops:01", "hops: 1", "hops:17",
		"hops:9999999999999999999", " host", strings.Repeat("x", 1000)} {
		if got, err := viewer.Parse(text); err == nil || len(err.Error()) > 200 {
			t.Errorf("%q: got %s, %v; want a short error", text, got, err)
		}
	}
	if finder("host") != nil {
		t.Error("host: got a Finder, want none")
	}
}

// The secret and the previous one are valid; nothing else is, also if there is no previous one.
func TestFinder_Find_secret(t *testing.T) {
	alone := viewer.New(storetest.Must(viewer.Parse("cloudfront")), secret, "", slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		values         []string
		problem, alone string
	}{
		{[]string{secret}, "", ""},
		{[]string{before}, "", "wrong"},
		{nil, "missing", "missing"},
		{[]string{""}, "wrong", "wrong"},
		{[]string{secret, secret}, "repeated", "repeated"},
		{[]string{secret + "," + secret}, "wrong", "wrong"},
		{[]string{secret[1:]}, "wrong", "wrong"},
		{[]string{strings.ToUpper(secret)}, "wrong", "wrong"},
	} {
		h := http.Header{"Cloudfront-Viewer-Address": {"203.0.113.7:1"}}
		if c.values != nil {
			h[contract.OriginSecretField] = c.values
		}
		for f, want := range map[*viewer.Finder]string{finder("cloudfront"): c.problem, alone: c.alone} {
			address, text := "203.0.113.7", "cloudfront"
			if want != "" {
				address, text = edge.String(), "host (Weir-Origin-Secret: "+want+")"
			}
			if got := f.Find(t.Context(), h, edge, true); got.Addr.String() != address || got.String() != text {
				t.Errorf("%.99q: got %s, %s; want %s, %s", c.values, got.Addr, got, address, text)
			}
		}
	}
}

// Each row has the header fields of a request with a valid secret, as the distribution and then API Gateway write them.
func TestFinder_Find(t *testing.T) {
	for _, c := range []struct {
		name, believed string
		fields         []string // values of the field that is believed
		want, problem  string
	}{
		{"IPv4", "cloudfront", []string{"203.0.113.7:46532"}, "203.0.113.7", ""},
		{"IPv6", "cloudfront", []string{"2001:db8::7:443"}, "2001:db8::7", ""},
		{"IPv6, whole", "cloudfront", []string{"2001:0db8:85a3:0000:0000:8a2e:0370:7334:65535"}, "2001:db8:85a3::8a2e:370:7334", ""},
		{"IPv6 that ends in colons", "cloudfront", []string{"2001:db8:::443"}, "2001:db8::", ""},
		{"mapped", "cloudfront", []string{"::ffff:203.0.113.7:443"}, "::ffff:203.0.113.7", ""},
		{"no field", "cloudfront", nil, "", "missing"},
		{"empty", "cloudfront", []string{""}, "", "no address"},
		{"twice", "cloudfront", []string{"203.0.113.7:1", "203.0.113.7:1"}, "", "repeated"},
		{"joined", "cloudfront", []string{"203.0.113.7:1,203.0.113.8:1"}, "", "no address"},
		{"joined with a space", "cloudfront", []string{"203.0.113.7:1, 203.0.113.8:1"}, "", "no address"},
		{"no port", "cloudfront", []string{"203.0.113.7"}, "", "no address"},
		{"empty port", "cloudfront", []string{"203.0.113.7:"}, "", "no address"},
		{"port out of range", "cloudfront", []string{"203.0.113.7:65536"}, "", "no address"},
		{"signed port", "cloudfront", []string{"203.0.113.7:+80"}, "", "no address"},
		{"port junk", "cloudfront", []string{"203.0.113.7:80x"}, "", "no address"},
		{"brackets", "cloudfront", []string{"[2001:db8::7]:443"}, "", "no address"},
		{"zone", "cloudfront", []string{"fe80::1%eth0:443"}, "", "no address"},
		{"spaces", "cloudfront", []string{" 203.0.113.7:443"}, "", "no address"},
		{"octal", "cloudfront", []string{"203.0.113.007:443"}, "", "no address"},
		{"huge", "cloudfront", []string{strings.Repeat("1", 1<<20) + ":443"}, "", "no address"},
		{"only a colon", "cloudfront", []string{":"}, "", "no address"},

		{"one proxy", "hops:1", []string{"203.0.113.7, 192.0.2.1"}, "203.0.113.7", ""},
		{"with a forged entry", "hops:1", []string{"198.51.100.9, 203.0.113.7, 192.0.2.1"}, "203.0.113.7", ""},
		{"two proxies", "hops:2", []string{"198.51.100.9,203.0.113.7,198.51.100.1,192.0.2.1"}, "203.0.113.7", ""},
		{"repeated fields", "hops:2", []string{"198.51.100.9, 203.0.113.7", "198.51.100.1", "192.0.2.1"}, "203.0.113.7", ""},
		{"empty elements", "hops:1", []string{"203.0.113.7,, ,192.0.2.1,"}, "203.0.113.7", ""},
		{"a port", "hops:1", []string{"203.0.113.7:81, 192.0.2.1"}, "203.0.113.7", ""},
		{"a bracket", "hops:1", []string{"[2001:db8::7]:81, 192.0.2.1"}, "2001:db8::7", ""},
		{"the peer, mapped", "hops:1", []string{"203.0.113.7, ::ffff:192.0.2.1"}, "203.0.113.7", ""},
		{"the peer forged twice", "hops:1", []string{"198.51.100.9, 192.0.2.1, 203.0.113.7, 192.0.2.1"}, "203.0.113.7", ""},
		{"unknown", "hops:1", []string{"203.0.113.7, unknown, 192.0.2.1"}, "", "no address at this hop"},
		{"huge entry", "hops:1", []string{strings.Repeat("1", 1<<20) + ", 192.0.2.1"}, "", "no address at this hop"},
		{"only the peer", "hops:1", []string{"192.0.2.1"}, "", "too few entries"},
		{"few", "hops:3", []string{"198.51.100.9, 203.0.113.7, 192.0.2.1"}, "", "too few entries"},
		{"none", "hops:1", nil, "", "too few entries"},
		{"many commas", "hops:1", []string{strings.Repeat(",", 1<<16)}, "", "too few entries"},
		{"the host has not appended", "hops:1", []string{"198.51.100.9, 203.0.113.7"}, "", "the last entry is not the source address"},
	} {
		field := "X-Forwarded-For"
		if c.believed == "cloudfront" {
			field = "Cloudfront-Viewer-Address"
		}
		h := http.Header{contract.OriginSecretField: {secret}}
		if c.fields != nil {
			h[field] = c.fields
		}
		got := finder(c.believed).Find(t.Context(), h, edge, true)
		want := edge.String()
		if c.want != "" {
			want = c.want
		}
		from := c.believed
		if c.problem != "" {
			from = "host"
		}
		if got.Addr.String() != want || got.From != from || (got.Problem == "") != (c.problem == "") || !strings.HasSuffix(got.Problem,
			c.problem) || len(got.Problem) > 80 {
			t.Errorf("%s, %s: got %s, %s; want %s, %s, %s", c.believed, c.name, got.Addr, got, want, from, c.problem)
		}
	}
}

// If the host has not appended the address of the peer, the last entry of X-Forwarded-For counts too.
func TestFinder_Find_notAppended(t *testing.T) {
	h := http.Header{contract.OriginSecretField: {secret}, "X-Forwarded-For": {"198.51.100.9, 203.0.113.7"}}
	for believed, want := range map[string]string{"hops:1": "203.0.113.7", "hops:2": "198.51.100.9", "hops:3": "192.0.2.1"} {
		if got := finder(believed).Find(t.Context(), h, edge, false); got.Addr.String() != want {
			t.Errorf("%s: got %s, %s; want %s", believed, got.Addr, got, want)
		}
	}
}

// Fields are sorted and canonical, because the authorizer searches them.
func TestFinder_Fields(t *testing.T) {
	for _, source := range []string{"cloudfront", "hops:1"} {
		fields := finder(source).Fields()
		if !slices.IsSorted(fields) || !slices.Contains(fields, contract.OriginSecretField) {
			t.Errorf("%s: got %q, want the secret's field, sorted", source, fields)
		}
		for _, field := range fields {
			if http.CanonicalHeaderKey(field) != field {
				t.Errorf("%s: got %s, want its canonical form", source, field)
			}
		}
	}
}

// Whatever the fields are, the result is an address without a zone, and nothing panics.
func FuzzFinder_Find(f *testing.F) {
	f.Add("203.0.113.7:80", "203.0.113.7, 192.0.2.1")
	f.Add("::1%lo:80", "unknown,,192.0.2.1")
	all := []*viewer.Finder{finder("cloudfront"), finder("hops:1"), finder("hops:3")}
	f.Fuzz(func(t *testing.T, cloudFront, forwarded string) {
		h := http.Header{contract.OriginSecretField: {secret}, "Cloudfront-Viewer-Address": {cloudFront}, "X-Forwarded-For": {forwarded}}
		for _, v := range all {
			for _, appended := range []bool{true, false} {
				got := v.Find(t.Context(), h, edge, appended)
				if !got.IsValid() || got.From == "host" && got.Addr != edge || got.From == "host" == (got.Problem == "") {
					t.Errorf("got %s, %s; want an address, or the source address with a problem", got.Addr, got)
				}
			}
		}
	})
}

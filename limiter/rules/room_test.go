package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

func buckets(n int, rest string) string {
	return list("l", n, `,"algorithm":"token_bucket"`+rest)
}

func TestRules_Rooms(t *testing.T) {
	const client = "user, apikey, ip"
	const acrossTiers = `{"name":"x","requests":9,"window":"1h","across_tiers":true}`
	for _, c := range []struct {
		name, document string
		want           []rules.Room
		beyond         []string
	}{
		{"seven of ten", document(rule("/a", "", `"*":`+buckets(7, ""))), nil, nil},
		{"eight of ten", document(rule("/a", "", `"*":`+buckets(8, ""))), []rules.Room{{client, "*", false, 8, 10, true}}, []string{"rules[0].limits.*[0] (l0)", "rules[0].limits.*[7] (l7)"}},
		{"ten of ten, without endpoint", document(rule("/a", "", `"*":`+buckets(10, `,"per":["user"]`))), []rules.Room{{"user", "*", false, 10, 10, true}}, nil},
		{"four of seven windows", document(endpoints(4)...), nil, nil},
		{"five of seven windows", document(endpoints(5)...), []rules.Room{{client, "*", false, 5, 7, true}}, []string{"rules[0].limits.* (e0)", "rules[4].limits.* (e4)"}},
		{"by tier", document(rule("/a", "", `"free":`+buckets(8, "")+`,"paid":`+buckets(9, `,"per":["user","endpoint"]`)+`,"gold":`+buckets(7, ""))),
			[]rules.Room{{"user", "paid", false, 9, 10, true}, {client, "free", false, 8, 10, true}}, []string{"rules[0].limits.free[0] (l0)", "rules[0].limits.paid[8] (l8)"}},
		{"all callers", document(rule("/a", "GET", `"global":`+buckets(9, ""))), []rules.Room{{"endpoint GET /a", "*", false, 9, 10, false}}, nil},
		{"each endpoint", document(rule("/a", "", `"*":`+buckets(10, "")), rule("/b", "", `"*":`+buckets(2, ""))),
			[]rules.Room{{"user endpoint /a, apikey endpoint /a, ip endpoint /a", "*", false, 10, 10, false}}, nil},
		{"shadow", document(strings.Replace(rule("/a", "", `"*":`+buckets(8, "")), "{", `{"mode":"shadow",`, 1)), []rules.Room{{client, "*", true, 8, 10, true}}, []string{"rules[0].limits.*[0] (l0)", "rules[0].limits.*[7] (l7)"}},
		{"one count across tiers", document(rule("/a", "", `"free":`+strings.Replace(buckets(5, ""), "[", "["+acrossTiers+",", 1)+`,"paid":`+acrossTiers+`,"gold":`+acrossTiers)),
			[]rules.Room{{client, "free", false, 8, 10, true}}, []string{"rules[0].limits.free[0] (x)", "rules[0].limits.paid (x)"}},
		{"shared by rules", document(rule("/a", "", `"*":`+buckets(7, `,"per":["client"]`)), rule("/b", "", `"*":`+buckets(7, `,"per":["client"]`))), nil, nil},
	} {
		rooms, beyond := parse(t, c.document).Rooms()
		if !slices.Equal(rooms, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, rooms, c.want)
		}
		if len(beyond) > 2 {
			beyond = []string{beyond[0], beyond[len(beyond)-1]}
		}
		if !slices.Equal(beyond, c.beyond) {
			t.Errorf("%s: counts beyond the room: got %q, want %q", c.name, beyond, c.beyond)
		}
	}
	all, err := rules.Parse([]byte(document(rule("/a", "", `"*":`+list("l", 8, "")))), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rooms, _ := all.Rooms(); len(rooms) != 1 || rooms[0].Limits != 8 || rooms[0].Most != 10 {
		t.Errorf("a store without sizes: got %+v, want room for ten limits", rooms)
	}
}

// A rule that fills the room of an item restarts no count. One more limit restarts exactly the counts that Rooms
// returns, or makes the document invalid.
func TestRules_Rooms_exact(t *testing.T) {
	restarted, rejected := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		var texts []string
		for range rapid.IntRange(1, 4).Draw(rt, "rules") {
			texts = append(texts, drawRule(rt, len(texts)).text)
		}
		with := func(n int, room rules.Room, family string) (*rules.Rules, error) {
			all := texts
			if n > 0 {
				all = append(slices.Clone(texts), addition(n, room, family))
			}
			return rules.Parse([]byte(document(all...)), rules.Options{Items: dynamostore.Items{}})
		}
		r, err := with(0, rules.Room{}, "")
		if err != nil {
			return
		}
		rooms, beyond := r.Rooms()
		if len(rooms) == 0 && !r.PerEndpoint() {
			for _, tier := range []string{"free", "paid", "*"} {
				rooms = append(rooms, rules.Room{Items: "user", Tier: tier, Most: 2, Restarts: true}) // Most is a lower bound; one more limit may fit
			}
		}
		for _, room := range rooms {
			for family := range strings.SplitSeq(room.Items, ", ") {
				more := room.Most - room.Limits
				if fullest := rooms[0]; strings.HasPrefix(family, "ip") && more > fullest.Most-fullest.Limits {
					continue // a limit by ip counts in the items of every tier, and the item of another tier can have less room
				}
				fits, err := with(more, room, family)
				if err != nil || len(rules.Restarts(r, fits)) > 0 {
					rt.Fatalf("%+v: %d more limits: got error %v, want none, and no restarts", room, more, err)
				}
				if room.Limits == 0 {
					continue
				}
				over, err := with(more+1, room, family)
				switch {
				case !room.Restarts && err == nil:
					rt.Fatalf("%+v: %d more limits: got no error, want one", room, more+1)
				case !room.Restarts:
					rejected++
				case err != nil || !slices.Equal(rules.Restarts(r, over), beyond):
					rt.Fatalf("%+v: %d more limits: got error %v, want none, and restarts of %q", room, more+1, err, beyond)
				default:
					restarted++
				}
			}
		}
	})
	if restarted == 0 || rejected == 0 {
		t.Errorf("got %d rooms beyond which counts restart, and %d beyond which documents are rejected; want some of both", restarted, rejected)
	}
}

// addition returns a rule with n limits that an item of this family contains, as its other limits do.
func addition(n int, room rules.Room, family string) string {
	who, place, _ := strings.Cut(family, "endpoint ")
	per, endpoint, method := strings.Fields(who), "/new", ""
	if room.Restarts || place != "" {
		per = append(per, "endpoint")
	}
	if place != "" {
		words := strings.Fields(place)
		endpoint = words[len(words)-1]
		method = strings.Join(words[:len(words)-1], "")
	}
	tier := strings.Replace(room.Tier, "*", "other", 1)
	text := rule(endpoint, method, fmt.Sprintf(`"%s":%s`, tier, tens("added", n, `,"per":["`+strings.Join(per, `","`)+`"]`)))
	if room.Shadow {
		text = strings.Replace(text, "{", `{"mode":"shadow",`, 1)
	}
	return text
}

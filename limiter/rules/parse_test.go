package rules_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-limits/weir/limiter/rules"
)

// One defect a file, named for the defect, and what is said of it.
var defects = map[string]string{
	"not_json":                      `line 1: the document ends too early`,
	"trailing_data":                 `line 2: data after the end of the document`,
	"syntax":                        `line 1: invalid character`,
	"not_an_object":                 `got a list, want an object`,
	"deep":                          `line 1: nested more than 12 deep`,
	"no_rules":                      `rules: is missing`,
	"rules_no_list":                 `rules: got an object, want a list`,
	"duplicate_key":                 `rules: stands twice in one object`,
	"unknown_field":                 `rulez: unknown field; known here: $schema, rules, default_tier, mode, version, overrides`,
	"unknown_default_tier":          `default_tier: got "gold", which no rule names: want free`,
	"version_zero":                  `version: got 0, want a whole number from 1 to 140737488355327`,
	"version_text":                  `version: got "1", want a whole number from 1 to 140737488355327`,
	"no_endpoint":                   `rules[0].endpoint: is missing`,
	"endpoint_relative":             `rules[0].endpoint: got "api", want "*" or a path that begins with /`,
	"endpoint_not_normal":           `rules[0].endpoint: got "/api//v1/": write /api/v1`,
	"endpoint_star_inside":          `rules[0].endpoint: got "/api/*/x": a segment is literal or one {parameter}, and * stands alone at the end`,
	"endpoint_half_parameter":       `rules[0].endpoint: got "/api/x{id}": a segment is literal or one {parameter}, and * stands alone at the end`,
	"endpoint_root_below":           `rules[0].endpoint: got "/*": write "*" for every path`,
	"method_options":                `rules[0].method: OPTIONS is never limited: leave the method out for all others`,
	"method_head":                   `rules[0].method: HEAD counts as GET: write GET`,
	"method_lower_case":             `rules[0].method: got "get", want GET, POST, PUT, PATCH or DELETE, or no method for all of them`,
	"no_limits":                     `rules[0].limits: is missing`,
	"empty_limits":                  `rules[0].limits: is empty, want a tier, "*" or "global"`,
	"tier_name":                     `rules[0].limits["gold members"]: is no tier: want letters, digits, "_", "." and "-", or "*" or "global"`,
	"empty_list":                    `rules[0].limits.free: is empty: leave the tier out, or give it a limit`,
	"list_without_names":            `rules[0].limits.free[0].name: is missing: limits in a list need one each`,
	"limit_no_object":               `rules[0].limits.free: got 10, want an object`,
	"no_requests":                   `rules[0].limits.free.requests: is missing`,
	"requests_zero":                 `rules[0].limits.free.requests: got 0, want a whole number from 1 to 1000000000`,
	"requests_fraction":             `rules[0].limits.free.requests: got 1.5, want a whole number from 1 to 1000000000`,
	"requests_huge":                 `rules[0].limits.free.requests: got 1e400, want a whole number from 1 to 1000000000`,
	"per_client_and_user":           `rules[0].limits.free.per: client is the strongest of user, apikey and ip, so user cannot stand beside it`,
	"no_window":                     `rules[0].limits.free.window_seconds: is missing; "window": "1m" says the same`,
	"two_windows":                   `rules[0].limits.free.window: stands beside window_seconds: write one of them`,
	"window_short":                  `rules[0].limits.free.window: got "500ms", want whole seconds from "1s" to "100d", such as "90s", "15m", "1h" or "30d"`,
	"window_long":                   `rules[0].limits.free.window_seconds: got 8640001, want a whole number from 1 to 8640000`,
	"window_text":                   `rules[0].limits.free.window: got "minute", want whole seconds from "1s" to "100d", such as "90s", "15m", "1h" or "30d"`,
	"algorithm":                     `rules[0].limits.free.algorithm: got "gcra", want sliding_window, fixed_window, token_bucket, leaky_bucket or sliding_log`,
	"burst_of_a_window":             `rules[0].limits.free.burst: got 5, want none: sliding_window has no burst`,
	"bucket_too_slow":               `rules[0].limits.free.burst: got 200, want at most 100: a bucket must fill within 100 days`,
	"name":                          `rules[0].limits.free.name: got "Search!", want 1 to 32 of a-z, 0-9, _ and -`,
	"name_missing_without_endpoint": `rules[0].limits.free.name: is missing: a limit that does not count by endpoint is one count for all rules that use its name`,
	"note":                          `rules[0].limits.free.note: got 7, want a string`,
	"per_empty":                     `rules[0].limits.free.per: is empty: leave it out for client and endpoint`,
	"per_unknown":                   `rules[0].limits.free.per[0]: got "tenant", want client, user, apikey, ip, claim:<name>, endpoint or global`,
	"per_twice":                     `rules[0].limits.free.per[1]: stands twice in one list`,
	"per_global_and_user":           `rules[0].limits.free.per: global counts all callers together, so user cannot stand beside it`,
	"cost_too_high":                 `rules[0].cost: got 11, more than rules[0].limits.paid ever allows at once (10)`,
	"same_limit_twice":              `rules[1].limits.free: is the same limit as rules[0].limits.free: give one of them another name`,
	"shared_with_other_numbers":     `rules[1].limits.free: shares the count of rules[0].limits.free, so it must have the same numbers`,
	"mode":                          `mode: got "off", want enforce or shadow`,
	"on_error":                      `rules[0].on_error: got "block", want local, allow or deny`,
	"local_processes_without_local": `rules[0].local_processes: only has an effect with "on_error": "local"`,
	"local_processes_zero":          `rules[0].local_processes: got 0, want a whole number from 1 to 100000`,
	"local_processes_above_burst":   `rules[0].local_processes: does not go with rules[0].limits.free: got 5, want 1 to 4 here`,
	"cost_above_local_processes":    `rules[0].cost: got 3, more than rules[0].limits.free ever allows at once in an outage (2), divided by local_processes`,
	"shared_with_other_on_error":    `rules[1].limits.*: shares the count of rules[0].limits.*, so their rules must have the same on_error and local_processes`,
	"override_of_local_processes":   `overrides[0].limits.a: does not go with rules[0].local_processes: got 8, want 1 to 5 here`,
	"override_below_a_local_cost":   `overrides[0].limits.a: allows at most 1 at once, less than rules[0].cost (2)`,
	"lease_above_requests":          `rules[0].limits.free.lease: got 11, want 1 to 10 here`,
	"lease_of_a_log":                `rules[0].limits.free.lease: got 5, want none: a sliding_log knows the instant of each request`,
	"shards_above_requests":         `rules[0].limits.free.shards: got 11, want 2 to 10 here`,
	"shards_many":                   `rules[0].limits.free.shards: got 65, want a whole number from 1 to 64`,
	"sync_ms_above_window":          `rules[0].limits.free.sync_ms: got 60001, want 10 to 60000 here`,
	"cells_above_requests":          `rules[0].limits.free.cells: got 11, want 2 to 10 here`,
	"two_spreads":                   `rules[0].limits.free.cells: got 2, want none beside shards`,
	"log_too_long":                  `rules[0].limits.free.requests: got 329, want at most 328 for a sliding_log, which keeps the instant of each; a sliding_window counts any number`,
	"eight_limits_of_a_caller":      `rules[0].limits.*[7]: is the 8th of the limits that a "*" caller has in one item (user): they take up to`,
	"eleven_buckets_of_an_endpoint": `rules[0].limits.*[10]: is one of 11 limits that a "*" caller has in one item (user endpoint /a), and at most 10 fit one write; the first is rules[0].limits.*[0]`,
	"logs_of_a_caller":              `rules[1].limits.*: is one of the sliding_logs that a "*" caller has in one item (user): it takes up to`,
	"cost_above_a_shard":            `rules[0].cost: got 6, more than rules[0].limits.free ever allows at once (5)`,
	"overrides_no_list":             `overrides: got an object, want a list`,
	"override_for_nobody":           `overrides[0]: is for nobody, want a member user, apikey, ip or claim:<name>`,
	"override_for_two":              `overrides[0].apikey: stands beside user: an override is for one of them`,
	"override_empty_user":           `overrides[0].user: is empty`,
	"override_address":              `overrides[0].ip: got "10.0.0.300", want an IPv4 address, or an IPv6 network such as 2001:db8:1::/64`,
	"override_other_identity":       `overrides[0].limits.a: no limit of this name counts by apikey`,
	"override_unknown_limit":        `overrides[0].limits.b: no limit of this name counts by user`,
	"override_no_requests":          `overrides[0].limits.a.requests: is missing`,
	"override_twice":                `overrides[1].limits.a: stands twice for user "u"`,
	"override_unknown_field":        `overrides[0].limits.a.shards: unknown field; known here: requests, window_seconds, window, algorithm, burst, note`,
	"endpoint_query":                `rules[0].endpoint: got "/a?b=c": a query or a fragment is no part of a path`,
	"override_below_cost":           `overrides[0].limits.a: allows at most 5 at once, less than rules[0].cost (6)`,
	"override_of_shards":            `overrides[0].limits.a: does not go with rules[0].limits.free.shards: got 8, want 2 to 5 here`,
	"override_network":              `overrides[0].ip: got "10.0.0.0/24", want an IPv4 address, or an IPv6 network such as 2001:db8:1::/64`,
	"override_mapped_network":       `overrides[0].ip: got "::ffff:10.0.0.1/128", want an IPv4 address, or an IPv6 network such as 2001:db8:1::/64`,
	"overrides_unknown_limits": `overrides[0].limits.b: no limit of this name counts by user
overrides[1].limits.c: no limit of this name counts by user`,
	"per_many":          `rules[0].limits.free.per: has 7 words, at most 6 are allowed`,
	"endpoint_deep":     `rules[0].endpoint: has 33 segments, at most 32 are allowed`,
	"endpoint_long":     `rules[0].endpoint: has 1025 bytes, at most 1024 are allowed`,
	"window_signed":     `rules[0].limits.free.window: got "+1m", want whole seconds from "1s" to "100d", such as "90s", "15m", "1h" or "30d"`,
	"cost_almost_whole": `rules[0].cost: got 1.0000000000000000001, want a whole number from 1 to 1000000000`,
	"five": `rules[0].endpoint: got "/a/": write /a
rules[0].method: got "get", want GET, POST, PUT, PATCH or DELETE, or no method for all of them
rules[0].limits.free.requests: got -1, want a whole number from 1 to 1000000000
rules[0].limits.free.window_seconds: got 0, want a whole number from 1 to 8640000
rules[0].limits.free.burts: unknown field; known here: requests, window_seconds, window, algorithm, burst, lease, shards, sync_ms, cells, per, name, only_bad_credentials, note`,
	"bad_credentials_by_client": `rules[0].limits.*.only_bad_credentials: a request with a bad credential has no identity but its address: want "per": ["ip"] or ["ip", "endpoint"] beside it`,
	"bad_credentials_number":    `rules[0].limits.*.only_bad_credentials: got 1, want true or false`,
	"bad_credentials_shared":    `rules[1].limits.*: shares the count of rules[0].limits.*, so it must have the same only_bad_credentials`,
}

func TestParse_bad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.json")
	if err != nil || len(files) != len(defects) {
		t.Fatalf("%d files in testdata/bad for %d defects (%v)", len(files), len(defects), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			document, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = rules.Parse(document, rules.Options{})
			if _, ok := errors.AsType[rules.Problems](err); !ok {
				t.Fatalf("got error %v, want Problems", err)
			}
			if got, want := err.Error(), defects[name]; !strings.HasPrefix(got, want) || want == "" || strings.Count(got, "\n") != strings.Count(want, "\n") {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

// The JSON Schema accepts what Parse accepts, and finds what can be found without
// arithmetic.
func TestSchema(t *testing.T) {
	const id = "schema.json"
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(rules.Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(id, parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(id)
	if err != nil {
		t.Fatal(err)
	}
	beyond := map[string]bool{ // what a schema cannot say
		"duplicate_key": true, "unknown_default_tier": true, "window_short": true, "per_client_and_user": true, "bucket_too_slow": true,
		"per_global_and_user": true, "name_missing_without_endpoint": true, "cost_too_high": true, "cost_above_a_shard": true, "lease_above_requests": true, "shards_above_requests": true,
		"sync_ms_above_window": true, "cells_above_requests": true, "override_other_identity": true, "override_unknown_limit": true, "override_twice": true, "override_address": true, "same_limit_twice": true, "shared_with_other_numbers": true,
		"eight_limits_of_a_caller": true, "eleven_buckets_of_an_endpoint": true, "logs_of_a_caller": true, "override_below_cost": true, "override_of_shards": true, "local_processes_above_burst": true, "cost_above_local_processes": true, "shared_with_other_on_error": true, "override_of_local_processes": true, "override_below_a_local_cost": true, "override_network": true, "override_mapped_network": true, "overrides_unknown_limits": true,
		"bad_credentials_shared": true,
	}
	files, _ := filepath.Glob("testdata/*/*.json")
	for _, file := range files {
		document, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
		if err != nil {
			continue // not JSON
		}
		err = schema.Validate(instance)
		good := filepath.Base(filepath.Dir(file)) == "good" || beyond[strings.TrimSuffix(filepath.Base(file), ".json")]
		if (err == nil) != good {
			t.Errorf("%s: the schema says %v", file, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.json")
	for _, file := range files {
		document, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		r, err := rules.Parse(document, rules.Options{Version: 1})
		if err != nil {
			return
		}
		if !json.Valid(document) {
			t.Fatal("accepted what is not JSON")
		}
		for _, tier := range append(r.Tiers(), "") {
			alice := alice
			alice.Tier = tier
			seen := map[string]bool{}
			for _, c := range r.Charges(nil, "GET", rules.MustParsePath("/a/b"), alice) {
				key := c.Subject.String() + " " + c.Limit.ID.String()
				if seen[key] || c.Cost > c.Limit.Machine().Capacity() {
					t.Fatalf("charge %s of %d, capacity %d", key, c.Cost, c.Limit.Machine().Capacity())
				}
				seen[key] = true
			}
		}
	})
}

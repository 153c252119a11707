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

	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

const wantValues = `a value, one that ends with *, or a list of values, such as ["search_*", "fetch"]`

// defects contains the expected error of each file in testdata/bad. Each file has one defect.
var defects = map[string]string{
	"cost_too_high":        `line 1: rules[0].cost: got 11, want at most 10, the capacity of rules[0].limits.paid`,
	"unknown_default_tier": `line 1: default_tier: got "gold", want a tier that a rule names: free`,
	"per_empty":            `line 1: rules[0].limits.free.per: got an empty list, want a list of 1 to 6 words, such as ["client", "endpoint"]`,
	"limits_list": `line 1: rules[0].limits: got a list, want an object, such as {"*": {"requests": 100, "window": ` +
		`"1m"}}, which has limits by tier`,
	"empty_list":               `line 1: rules[0].limits.free: got an empty list, want a limit; leave out a tier that has no limit`,
	"tiers_object":             `line 1: tiers: got an object, want a list of 1 to 1000 tiers, such as ["free", "paid"]`,
	"notify_many":              `line 1: rules[0].limits.*.notify: got 6 percentages, want a list of 1 to 5 percentages, such as [80, 100]`,
	"count_status_of_requests": `line 1: rules[0].limits.*.failure_status: requires "count": "failures"`,
	"window_number":            `line 1: rules[0].limits.*.window: got 60, want a string such as "60s"; window_seconds is a number`,
	"algorithm": `line 1: rules[0].limits.free.algorithm: got "gcra", want sliding_window, fixed_window, token_bucket, ` +
		`leaky_bucket or sliding_log`,
	"only_by_client": `line 1: rules[0].limits.*.only: needs "per": ["ip"] or ["ip", "endpoint"]: without a verified ` +
		`identity a request has only its address`,
	"only_unknown":    `line 1: rules[0].limits.*.only: got "unverifed", want unverified or bad_credentials (did you mean "unverified"?)`,
	"bucket_too_slow": `line 1: rules[0].limits.free.burst: got 200, want at most 100: a bucket must fill within 100 days`,
	"count_without_reserve": `line 1: rules[0].limits.*.reserve: required with "count": "cost": what a request charges until its ` +
		`answer is known`,
	"count_reserve_of_requests": `line 1: rules[0].limits.*.reserve: requires "count": "cost" or "bytes"`,
	"count_beside_lease": `line 1: rules[0].limits.*.count: got failures, want requests, because the limit has lease, ` +
		`shards or sync_ms`,
	"count_status": `line 1: rules[0].limits.*.failure_status[1]: got "6xx", want a status from 100 to 599, or a class such as "4xx"`,
	"count_shared": `line 3: rules[1].limits.*: shares the count of rules[0].limits.*, so it must have the same "count" and ` +
		`"failure_status"`,
	"notify_no_list":  `line 1: rules[0].limits.*.notify: got 80, want a list of 1 to 5 percentages, such as [80, 100]`,
	"notify_text":     `line 1: rules[0].limits.*.notify[0]: got "80", want a whole number from 1 to 200, without quotes`,
	"notify_unsorted": `line 1: rules[0].limits.*.notify: got 100, 80 %, want percentages from 1 to 200 in ascending order`,
	"notify_beside_shards": `line 1: rules[0].limits.*.notify: got lease, shards or sync_ms, want none of them: only the store knows ` +
		`the exact usage`,
	"notify_of_a_bucket": `line 1: rules[0].limits.*.notify: got token_bucket, want a fixed_window or a sliding_window: a ` +
		`notice is written once in a window`,
	"notify_short_window": `line 1: rules[0].limits.*.notify: got 59s, want a window of at least 1m`,
	"across_tiers_of_a_log": `line 1: rules[0].limits.*.across_tiers: got 10, want none: a sliding_log has no threshold; use a window, ` +
		`a bucket or a period`,
	"across_tiers_by_ip": `line 1: rules[0].limits.*.across_tiers: got true, want a "per" with client, user, apikey or ` +
		`claim:<name>: callers of several tiers share the other counts`,
	"across_tiers_of_one_tier": `line 3: rules[0].limits.paid: keeps one count with rules[0].limits.free (across_tiers), so it must ` +
		`have the same "across_tiers"`,
	"across_tiers_other_period": `line 3: rules[0].limits.paid: keeps one count with rules[0].limits.free (across_tiers), so it must ` +
		`have the same algorithm and the same window or period`,
	"across_tiers_other_rate": `line 3: rules[0].limits.paid: keeps one count with rules[0].limits.free (across_tiers), so it must ` +
		`have the same algorithm, requests and window; only the burst may differ`,
	"across_tiers_unnamed_tier": `line 3: rules[1].limits.*: applies to callers of tier paid too, but rules[0].limits.paid keeps the ` +
		`same count with other numbers; name the tier paid in this rule`,
	"up_to_beside_lease": `line 1: rules[0].limits.global.up_to: got 20, want none beside lease, shards or sync_ms`,
	"up_to_below_a_cost": `line 1: rules[0].limits.global.up_to: got a part of 5 requests (divided by local_processes), want at ` +
		`least the cost, 6
line 2: rules[1].limits.global.up_to: got a part of 0 requests (divided by local_processes), want at least the cost, 1`,
	"up_to_of_a_log": `line 1: rules[0].limits.global.up_to: got 20, want none: a sliding_log has no threshold; use a window, a ` +
		`bucket or a period`,
	"up_to_of_one_tier":    `line 1: rules[0].limits.free.up_to: want a limit under "global" or "*", which callers of several tiers share`,
	"up_to_fraction":       `line 1: rules[0].limits.global.up_to.*: got "0.5", want "1%" to "100%", without fractions`,
	"up_to_without_a_tier": `line 1: rules[0].limits.global.up_to: got no part for the tier free, want one for every tier, or for "*"`,
	"up_to_regions":        `line 1: rules[0].limits.global.up_to: got 20, want none beside regions`,
	"up_to_unknown_tier":   `line 1: rules[0].limits.global.up_to.piad: got "piad", want a tier of "tiers": free or paid; or "*"`,
	"regions_of_slots": `line 2: rules[0].limits.*.regions: got shared, want each: regions cannot share a concurrent; use a ` +
		`fixed_window, a sliding_window or a period`,
	"regions_beside_lease":          `line 1: rules[0].limits.*.regions: got shared, want each beside lease, shards or sync_ms`,
	"regions_beside_notify":         `line 1: rules[0].limits.*.regions: got shared, want each beside notify`,
	"regions_above_local_processes": `line 1: rules[0].local_processes: got 6, want 1 to 5 here for rules[0].limits.*`,
	"usage_mark":                    `line 1: usage.limit.mode: got "mark", want "enforce": nothing else limits the usage endpoint`,
	"cost_above_local_processes": `line 1: rules[0].cost: got 3, want at most 2, the capacity of rules[0].limits.free in an outage, ` +
		`divided by local_processes`,
	"deep":          `line 1, column 22: nested more than 12 deep`,
	"duplicate_key": `line 1: rules: got the same name twice in one object`,
	"eight_limits_of_a_caller": `line 9: rules[0].limits.*[7]: does not fit one item: the first 8 limits of a "*" caller in the item ` +
		`(user) take up to 1118 bytes, want at most 1024 (one write unit); the first is rules[0].limits.*[0]; use ` +
		`fewer requests in logs, or add "endpoint" to the per of limits of a single endpoint`,
	"eleven_buckets_of_an_endpoint": `line 12: rules[0].limits.*[10]: does not fit one item: the first 11 limits of a "*" caller ` +
		`in the item (user endpoint /a) are more than 10; the first is rules[0].limits.*[0]; use fewer requests in logs, or ` +
		`add "endpoint" to the per of limits of a single endpoint`,
	"empty_limits": `line 1: rules[0].limits: got an empty object, want a tier, "*" or "global"`,
	"endpoint_half_parameter": `line 1: rules[0].endpoint: got "/api/x{id}", want segments that are literals or one {parameter}; a * must ` +
		`be the whole last segment`,
	"endpoint_parameter_angle": `line 1: rules[0].endpoint: got "/v1/<id>/x", want a parameter as {id}, not as :id or <id>`,
	"endpoint_parameter_proxy": `line 1: rules[0].endpoint: got "/v1/{proxy+}", want /* as the last segment instead of {proxy+}`,
	"endpoint_query":           `line 1: rules[0].endpoint: got "/a?b=c", want a path without query and fragment`,
	"endpoint_root_below":      `line 1: rules[0].endpoint: got "/*", want "*" for every path`,
	"exempt_nothing":           `line 1: exempt[0]: want one of the members ip, user, apikey or endpoint`,
	"exempt_empty":             `line 1: exempt[0].user: is empty`,
	"exempt_all":               `line 1: exempt[0].endpoint: got "*", want a path; "mode": "shadow" stops the enforcement of all limits`,
	"exempt_twice":             `line 1: exempt[1]: exempts the same requests as exempt[0]`,
	"per_header_alone": `line 1: rules[0].limits.*.per: got header:x-tenant without an identity, want also client, user, apikey, ` +
		`ip or claim:<name>: a client chooses its header fields`,
	"per_header_credential": `line 1: rules[0].limits.*.per[1]: got "header:Authorization", want another field: host differs between the ` +
		`domains of an API, and the others contain credentials; for a credential use user or apikey`,
	"usage_endpoint": `line 1: usage.endpoint: got "/me/{x}", want a path without parameters and *`,
	"five": `line 2: rules[0].endpoint: got "/a/", want /a
line 2: rules[0].method: got "get", want GET, POST, PUT, PATCH or DELETE (did you mean "GET"?)
line 2: rules[0].limits.free.requests: got -1, want a whole number from 1 to 1000000000
line 2: rules[0].limits.free.window: got "0s", want whole seconds from "1s" to "100d", such as "90s", "15m", "1h" or "30d"; for ` +
		`calendar months and years, use "period": "month" or "year"
line 2: rules[0].limits.free.burts: unknown field (did you mean "burst"?); known fields: requests, window_seconds, window, ` +
		`period, time_zone, anchor, algorithm, burst, lease, shards, sync_ms, count, from, reserve, failure_status, notify, per, ` +
		`name, only, across_tiers, up_to, regions, mode, note`,
	"lease_above_requests": `line 1: rules[0].limits.free.lease: got 11, want 1 to 10 here`,
	"lease_of_a_log":       `line 1: rules[0].limits.free.lease: got 5, want none: a sliding_log stores the instant of each request`,
	"limits_without_tier":  `line 1: rules[0].limits: got a limit, want limits by tier, such as {"*": {"requests": 100, "window": "1m"}}`,
	"list_without_names":   `line 1: rules[0].limits.free[0].name: required: every limit in a list has a name`,
	"logs_of_a_caller": `line 3: rules[1].limits.*: does not fit one item: the first 2 limits of a "*" caller in the item (user) ` +
		`take up to 14834 bytes, want at most 8192 (8 write units); the first is rules[0].limits.*; use fewer ` +
		`requests in logs, or add "endpoint" to the per of limits of a single endpoint`,
	"method_head": `line 1: rules[0].method: got "HEAD", want GET, POST, PUT, PATCH or DELETE; GET includes HEAD`,
	"method_options": `line 1: rules[0].method: got "OPTIONS", want GET, POST, PUT, PATCH or DELETE; OPTIONS counts by the ` +
		`method that a preflight asks for`,
	"name": `line 1: rules[0].limits.free.name: got "Search!", want 1 to 32 of a-z, 0-9, _ and -`,
	"name_missing_without_endpoint": `line 1: rules[0].limits.free.name: required: all rules that use the name of a limit share its count, ` +
		`unless the limit counts by endpoint`,
	"no_window":                   `line 1: rules[0].limits.free.window_seconds: required, or "window": "1m", or "period": "month"`,
	"syntax_yaml":                 `line 1, column 1: invalid character '#' looking for beginning of value; rules are JSON, not YAML`,
	"except_every":                `line 1: rules[0].except[0]: got "/a/*", which leaves out every request of the rule`,
	"except_outside":              `line 1: rules[0].except[0]: got "/b", want a path that the endpoint /a/* matches`,
	"except_text":                 `line 1: rules[0].except: got "/a/b", want a list of 1 to 100 endpoints, such as ["/health"]`,
	"not_json":                    `line 2, column 1: unexpected end of JSON input`,
	"note":                        `line 1: rules[0].limits.free.note: got 7, want a string`,
	"override_below_a_local_cost": `line 2: overrides[0].limits.a: got a capacity of 1, want at least 2, the cost in rules[0].cost`,
	"override_for_nobody":         `line 1: overrides[0]: want one of the members user, apikey, ip or claim:<name>`,
	"override_for_two":            `line 1: overrides[0].apikey: got user and apikey, want one of them`,
	"override_network": `line 1: overrides[0].ip: got "10.0.0.0/33", want an IPv4 address, or a network such as 192.0.2.0/24 or ` +
		`2001:db8:1::/64`,
	"override_of_local_processes": `line 2: overrides[0].limits.a: does not fit rules[0].local_processes: got 8, want 1 to 5 here`,
	"override_other_identity":     `line 1: overrides[0].limits.a: no limit counts by apikey`,
	"override_twice":              `line 1: overrides[1].limits.a: got two overrides of a for user "u", want one`,
	"override_unknown_limit":      `line 1: overrides[0].limits.b: no limit of this name counts by user, want "a"`,
	"per_client_and_user": `line 1: rules[0].limits.free.per: got client and user, want one of them: client means the user, or the ` +
		`API key if there is no user, or the address if there is neither`,
	"per_global_and_user": `line 1: rules[0].limits.free.per: got global and user, want global alone or with endpoint; global ` +
		`counts all callers together`,
	"per_many":  `line 1: rules[0].limits.free.per: got 7 words, want a list of 1 to 6 words, such as ["client", "endpoint"]`,
	"per_twice": `line 1: rules[0].limits.free.per[1]: got "ip" twice`,
	"per_unknown": `line 1: rules[0].limits.free.per[0]: got "tenant", want client, user, apikey, ip, claim:<name>, ` +
		`path:<parameter>, method, header:<name>, endpoint or global`,
	"same_limit_twice":          `line 1: rules[1].limits.free: is the same limit as rules[0].limits.free; give one of them another name`,
	"shared_with_other_numbers": `line 1: rules[1].limits.free: shares the count of rules[0].limits.free, so it must have the same numbers`,
	"shared_with_other_on_error": `line 2: rules[1].limits.*: shares the count of rules[0].limits.*, so their rules must have the same ` +
		`on_error and local_processes`,
	"syntax":        `line 1, column 11: invalid character '}' looking for beginning of value`,
	"tier_name":     `line 1: rules[0].limits["gold members"]: invalid tier, want letters, digits, "_", "." and "-", or "*" or "global"`,
	"trailing_data": `line 2, column 1: invalid character '{' after top-level value`,
	"two_windows":   `line 1: rules[0].limits.free.window: got window and window_seconds, want one of them`,
	"headers_bounds": `line 2: rules[0].headers: got 9 fields, want 1 to 8
line 4: rules[1].headers.Authorization: got Authorization, want another field: host differs between the domains of an API, and the ` +
		`others contain credentials; for a credential use user or apikey
line 4: rules[1].headers.X-A: got the field x-a twice
line 4: rules[1].headers["x b"]: got x b, want the name of a header field
line 4: rules[1].headers.x-long: got "` + strings.Repeat("a", 64) + `...", want ` + wantValues + `
line 4: rules[1].headers.x-none: got 0 values, want 1 to 100
line 4: rules[1].headers.x-number: got 1, want ` + wantValues + `
line 6: rules[2].headers.x-list: got 101 values, want 1 to 100
line 8: rules[3].headers.x-star: got "a*b", want ` + wantValues,
	"headers_value": `line 1: rules[0].headers.mcp-name[1]: got "=?Base64?c2VhcmNo?=", want the decoded value
line 1: rules[0].headers.x-plan[0]: got " gold", want a value without spaces around it and control characters; no field has one
line 1: rules[0].headers.x-plan[1]: got "a\x01", want a value without spaces around it and control characters; no field has one`,
	"cost_field": "line 1: rules[0].edge: unknown field: weir block and the stack infra/edge refuse callers at a distribution, and the " +
		"setting waf floods\nline 1: rules[0].limits.free.cost_field: unknown field: a back end reports costs in Weir-Cost, or \"from\" " +
		"reads them from its answer",
	"unknown_field": `line 1: rulez: unknown field (did you mean "rules"?); known fields: $schema, rules, tiers, default_tier, ` +
		`mode, version, regions, ignore_case, ignore_suffix, ignore_parameters, backslash_is_slash, refusal, overrides, exempt, usage`,
	"tier_not_declared": `line 1: rules[0].limits.pade: got "pade", want a tier of "tiers": free or paid; or "*" or "global" (did you ` +
		`mean "paid"?)`,
	"default_tier_missing": `line 1: default_tier: required, because "tiers" does not have "free", the default: want a tier of "tiers": ` +
		`basic or paid`,
	"tiers_empty_name": `line 1: tiers[1]: got "", want a tier: letters, digits, "_", "." and "-", but not "global"`,
	"window_short": `line 1: rules[0].limits.free.window: got "500ms", want whole seconds from "1s" to "100d", such as "90s", ` +
		`"15m", "1h" or "30d"; for calendar months and years, use "period": "month" or "year"`,
	"syntax_trailing_comma": `line 3, column 23: invalid character '}' looking for beginning of object key string; remove the comma ` +
		`before this character`,
	"syntax_comment": `line 2, column 3: invalid character '/' looking for beginning of object key string; JSON has no comments; ` +
		`use the field note`,
	"syntax_single_quotes":   `line 1, column 2: invalid character '\'' looking for beginning of object key string; JSON has no single quotes`,
	"syntax_escape":          `line 1, column 21: invalid character 'x' in string escape code`,
	"syntax_open_string":     `line 1, column 24: invalid character '\n' in string literal`,
	"syntax_byte_order_mark": `line 1, column 1: the document begins with a byte order mark; save it as UTF-8 without the mark`,
	"misspelled": `line 1: rules[0].limits.free.algorithm: got "token_buket", want sliding_window, fixed_window, token_bucket, ` +
		`leaky_bucket or sliding_log (did you mean "token_bucket"?)
line 1: rules[0].limits.free.per[0]: got "clent", want client, user, apikey, ip, claim:<name>, path:<parameter>, method, ` +
		`header:<name>, endpoint or global (did you mean "client"?)`,

	"period_of_a_bucket": `line 1: rules[0].limits.free.period: got day, want none: a token_bucket has no periods; use a fixed_window`,
	"time_zone_unknown": `line 1: rules[0].limits.free.time_zone: got "Europe/Berln", want a name of the IANA time zone database, ` +
		`such as "Europe/Berlin"`,
	"time_zone_of_a_window":     `line 1: rules[0].limits.free.time_zone: got "UTC", want none without a period`,
	"anchor_weekday_of_a_month": `line 1: rules[0].limits.free.anchor: got monday, want the first day of a month, 1 to 31`,
	"concurrent_algorithm": `line 1: rules[0].limits.*.algorithm: got fixed_window, want none: a limit that counts concurrent ` +
		`requests has no algorithm`,
	"concurrent_without_window": `line 1: rules[0].limits.*.window: required with "count": "concurrent": the longest time that a request ` +
		`holds its slot, such as "5m"`,
	"amounts": `line 2: rules[0].limits.*[0].requests: got 1000000001, want a whole number from 1 to 1000000000
line 3: rules[0].limits.*[1].requests: got 1000000001, want a whole number from 1 to 1000000000
line 4: rules[0].limits.*[2].requests: got 1000000001, want 1 to 1000000000
line 5: rules[0].limits.*[3].requests: got 1000000001, want 1 to 1000000000
line 6: rules[0].limits.*[4].requests: got 1000000000000000, want a whole number from 1 to 999999999999999`,
	"from_path": `line 2: rules[0].limits.*[0].from: got 7, want an object, such as {"json": "usage.total_tokens"}
line 3: rules[0].limits.*[1].from.json: got "a..b", want 1 to 8 names of members, joined by dots, such as "usage.total_tokens"; ` +
		`"|" separates alternatives
line 4: rules[0].limits.*[2].from.json: got an empty object, want a path
line 5: rules[0].limits.*[3].from.json.a: got 0, want a whole number from 1 to 1000000000
line 6: rules[0].limits.*[4].from: want either "json", or "by" and "prices"
line 7: rules[0].limits.*[5].from: want either "json", or "by" and "prices"
line 7: rules[0].limits.*[5].from.jason: unknown field (did you mean "json"?); known fields: json, by, prices`,
	"from_prices": `line 2: rules[0].limits.*[0].from.by: got "model", want json:<path> of the request's body, such as ` +
		`"json:model", or path:<parameter>
line 3: rules[0].limits.*[1].from.prices.*: required
line 4: rules[0].limits.*[2].from.prices[""]: got a value of 0 bytes, want 1 to 128
line 5: rules[0].limits.*[3].from.by: got "json:m|n", want json:<path> of the request's body, such as "json:model", or path:<parameter>`,
	"from_without_parameter": `line 2: rules[0].limits.*[0].from.by: got path:modell, want a parameter that occurs once in the endpoint ` +
		`/m/{model} (it occurs 0 times) (did you mean "path:model"?)`,
	"from_of_requests": `line 2: rules[0].limits.*[0].from: requires "count": "cost"
line 3: rules[0].limits.*[1].reserve: got an object, want a whole number from 1 to 999999999999999`,
	"reserve_object": `line 2: rules[0].limits.*[0].reserve.most: required
line 3: rules[0].limits.*[1].reserve.default: got 0, want a whole number from 1 to 999999999999999
line 4: rules[0].limits.*[2].reserve.json: got "a|", want 1 to 8 names of members, joined by dots, such as ` +
		`"usage.total_tokens"; "|" separates alternatives`,
	"reserve_above": `line 2: rules[0].limits.*[0].reserve.most: got 2, want at least the default, 3
line 3: rules[0].limits.*[1].reserve: got 1005 (201 times the highest weight), want at most 1000, the capacity of rules[0].limits.*[1]`,
}

func TestParse_bad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.json")
	if err != nil || len(files) != len(defects) {
		t.Fatalf("files in testdata/bad: got %d, error %v; want %d, one for each defect", len(files), err, len(defects))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			document, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = rules.Parse(document, rules.Options{Items: dynamostore.Items{}, OneRegion: true})
			if _, ok := errors.AsType[rules.Problems](err); !ok {
				t.Fatalf("error: got %v, want one of type Problems", err)
			}
			if got, want := err.Error(), defects[name]; got != want {
				t.Errorf("mistakes:\n got %s\nwant %s", got, want)
			}
		})
	}
}

// The JSON Schema accepts every document that Parse accepts. It rejects every mistake that a schema can
// express. A schema cannot express arithmetic.
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
	beyond := map[string]bool{ // a schema cannot express these mistakes
		"duplicate_key": true, "unknown_default_tier": true, "cost_too_high": true, "window_short": true, "per_client_and_user": true,
		"bucket_too_slow": true, "per_global_and_user": true,
		"name_missing_without_endpoint": true, "lease_above_requests": true, "override_other_identity": true, "override_unknown_limit": true,
		"override_twice":   true,
		"same_limit_twice": true, "shared_with_other_numbers": true, "eight_limits_of_a_caller": true, "eleven_buckets_of_an_endpoint": true,
		"logs_of_a_caller": true, "cost_above_local_processes": true,
		"shared_with_other_on_error": true, "override_of_local_processes": true, "override_below_a_local_cost": true, "override_network": true,
		"count_shared":        true,
		"notify_short_window": true, "notify_unsorted": true, "regions_of_slots": true, "regions_above_local_processes": true,
		"across_tiers_of_one_tier": true, "across_tiers_other_period": true, "across_tiers_other_rate": true,
		"across_tiers_unnamed_tier": true, "usage_mark": true, "per_header_alone": true, "per_header_credential": true, "exempt_twice": true,
		"up_to_below_a_cost": true, "up_to_of_one_tier": true, "up_to_regions": true, "up_to_unknown_tier": true, "up_to_without_a_tier": true,
		"from_without_parameter": true, "reserve_above": true, "headers_value": true,
		"tier_not_declared": true, "default_tier_missing": true, "time_zone_unknown": true, "except_every": true, "except_outside": true,
	}
	files, _ := filepath.Glob("testdata/*/*.json")
	for _, file := range files {
		document, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
		if err != nil {
			continue // the schema applies only to JSON
		}
		err = schema.Validate(instance)
		good := filepath.Base(filepath.Dir(file)) == "good" || beyond[strings.TrimSuffix(filepath.Base(file), ".json")]
		if (err == nil) != good {
			t.Errorf("%s: schema: got error %v, want it accepted: %t", file, err, good)
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
		r, err := rules.Parse(document, rules.Options{Items: dynamostore.Items{}, Version: 1, OneRegion: true})
		if err != nil {
			return
		}
		if !json.Valid(document) {
			t.Fatalf("Parse accepted %q, which is not JSON; want an error", document)
		}
		for _, tier := range append(r.Tiers(), "") {
			alice := alice
			alice.Tier = tier
			seen := map[string]bool{}
			for _, c := range r.Charges(nil, "GET", rules.EncodedPath("/a/b"), alice) {
				key := c.Subject.String() + " " + c.Limit.ID.String()
				if seen[key] || c.Cost > c.Limit.Machine().Capacity() {
					t.Fatalf("charge %s: got cost %d with capacity %d, want one charge within the capacity", key, c.Cost, c.Limit.Machine().Capacity())
				}
				seen[key] = true
			}
		}
	})
}

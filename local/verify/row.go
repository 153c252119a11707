package verify

import "context"

// Row is one fact about a deployment, and the way to test it.
type Row struct {
	// ID is a stable name in kebab-case.
	ID string
	// Claim is one sentence: what must be true.
	Claim string
	// Hand is the way in which a person tests the claim, as Markdown.
	Hand string
	// Needs are what the test requires. The row is skipped if one is missing.
	Needs []Need
	// After are the IDs of earlier rows. If one of them failed, this row is skipped, because its result
	// would only repeat that failure.
	After []string
	// Cost is the maximum number of requests.
	Cost Cost
	// Check tests the claim. nil means that only a person can test it.
	Check func(context.Context, *session) Observation
}

// Need is something that a test requires. Its text names the flag or the variable that provides it.
type Need string

// The needs of rows.
const (
	NeedREST             Need = "`--url`"
	NeedHTTP             Need = "`--http-url`"
	NeedFunctionURL      Need = "`--function-url`"
	NeedLayerURL         Need = "`--layer-url`"
	NeedAnyURL           Need = "a URL"
	NeedDomainURL        Need = "`--domain-url`"
	NeedRegionURL        Need = "`--region-url`"
	NeedRESTDistribution Need = "`--distribution-url`"
	NeedHTTPDistribution Need = "`--http-distribution-url`"
	NeedAPIKey           Need = "`$WEIR_API_KEY`"
	NeedToken            Need = "`$WEIR_TOKEN`"
	NeedSuspendedKey     Need = "`$WEIR_SUSPENDED_API_KEY`"
	NeedResources        Need = "`--template` or `--stack`"
	NeedStack            Need = "`--stack`"
	NeedFaults           Need = "`--write`"
	NeedPerson           Need = "a person"
)

// Cost is a maximum number of requests.
type Cost struct {
	Requests int  // independent of the rules
	Exhaust  bool // the test also sends as many requests as a limit admits, and some more
	Settles  bool // the test needs a limit whose requests are settled
	Shared   bool // the test sends as many requests as two regions admit if each counts alone
	Burst    bool // the test uses the answers to a burst that exhausts a limit; all rows share one burst
}

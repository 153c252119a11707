package verify

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/rules"
)

// Deployment is the deployment to test. A zero field is unknown, and the rows that need it are skipped.
type Deployment struct {
	// URL is the URL of the REST API with its stage, and HTTPURL the URL of the HTTP API. FunctionURL is
	// the URL of a function that calls the limiter. LayerURL is the URL of a function with the layer.
	URL, HTTPURL, FunctionURL, LayerURL string
	// Rules are the rules of the deployment. They are required for rows that exhaust a limit.
	Rules *rules.Rules
	// Path, if not empty, is the path of the GET requests. By default, the rules select it.
	Path string
	// Credential is the header fields that identify the caller. nil means an anonymous caller.
	Credential http.Header
	// Tier is the tier of the caller. Empty means the default tier.
	Tier string
	// APIKey and Token are a valid API key and a valid token, for the rows about them.
	APIKey, Token string
	// APIKeyHeader is the variable API_KEY_HEADER of the functions: the header field of API keys, or
	// contract.NoAPIKeys. "" means the default.
	APIKeyHeader string
	// DomainURL is the URL of a custom domain of one of the APIs.
	DomainURL string
	// RegionURL is the URL of the API in another of the regions that share limits. The API is of the kind of the first URL.
	RegionURL string
	// RESTDistributionURL and HTTPDistributionURL are the URLs of the distributions in front of the APIs.
	RESTDistributionURL, HTTPDistributionURL string
	// DirectURL and DirectHTTPURL are the URLs of the APIs themselves, if the functions refuse requests around the
	// distributions. URL and HTTPURL are then the URLs of the distributions. Empty means URL and HTTPURL.
	DirectURL, DirectHTTPURL string
	// SuspendedKey is an API key that is suspended.
	SuspendedKey string
	// Origin is an origin whose pages may read answers, for preflights. Empty means an origin that only
	// "*" permits.
	Origin string
	// Template is the template of the deployment.
	Template *Template
	// Account tests the rows that need calls of AWS.
	Account Account
	// Faults makes parts of the deployment fail. Set it only if the user permits changes.
	Faults Faults
	// MaxWait is the longest wait for a limit.
	MaxWait time.Duration
	// Clients is the maximum number of requests at the same time. 0 means DefaultClients.
	Clients int
	// Clock measures how long a burst takes. nil means time.Now.
	Clock func() time.Time
	// Wait waits until a limit recovers. nil means a wait in real time.
	Wait func(context.Context, time.Duration) error
	// Waiting is called before a wait. nil means that nothing is called.
	Waiting func(d time.Duration, reason string)
}

// DefaultClients is the default of Deployment.Clients.
const DefaultClients = 50

const apiKeyField = "X-Api-Key"

// field returns the name of a header field of credentials in the deployment, or "" if it has none.
func (d *Deployment) field(name string) string {
	switch {
	case name != apiKeyField || d.APIKeyHeader == "":
		return name
	case d.APIKeyHeader == contract.NoAPIKeys:
		return ""
	}
	return http.CanonicalHeaderKey(d.APIKeyHeader)
}

func (d *Deployment) now() time.Time {
	if d.Clock == nil {
		return time.Now()
	}
	return d.Clock()
}

// has reports whether d has what a row needs. Only a person has NeedPerson.
func (d *Deployment) has(n Need) bool {
	return map[Need]bool{
		NeedREST: d.URL != "", NeedHTTP: d.HTTPURL != "", NeedFunctionURL: d.FunctionURL != "", NeedLayerURL: d.LayerURL != "", NeedAnyURL: len(d.urls()) > 0,
		NeedDomainURL: d.DomainURL != "", NeedRegionURL: d.RegionURL != "", NeedRESTDistribution: d.RESTDistributionURL != "", NeedHTTPDistribution: d.HTTPDistributionURL != "",
		NeedAPIKey: d.APIKey != "", NeedToken: d.Token != "", NeedSuspendedKey: d.SuspendedKey != "",
		NeedResources: d.Template != nil, NeedStack: d.Account != nil, NeedFaults: d.Faults != nil,
	}[n]
}

// urls returns the URLs that are known, the REST API first.
func (d *Deployment) urls() (urls []string) {
	for _, u := range surfaces {
		if url := u.url(d); url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}

// wait waits for at most MaxWait.
func (d *Deployment) wait(ctx context.Context, t time.Duration, reason string) error {
	if t > d.MaxWait {
		return errTooLong
	}
	if d.Waiting != nil {
		d.Waiting(t, reason)
	}
	if d.Wait != nil {
		return d.Wait(ctx, t)
	}
	return Sleep(ctx, t)
}

// Sleep waits in real time. It returns the error of ctx if ctx ends earlier.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errTooLong = errors.New("the wait is longer than --wait permits")

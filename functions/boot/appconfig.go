package boot

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
)

// appConfigAgent reads the rules document from AWS AppConfig through its agent, a Lambda extension that AWS provides as
// a layer. It is a live.Source. It is safe for concurrent use.
//
// The agent listens on a local port in the function's environment, caches the document, and polls
// AppConfig while requests arrive. So a read calls no AWS service. A deployed document is in force
// after the interval of the agent (45 s) plus the interval of the reader (15 s), which is a minute.
//
// A document must contain its version, and the version must grow with every change. The version numbers
// of AppConfig are not suitable, because they differ by profile and a rollback lowers them. A rollback in
// AppConfig also lowers the version in the document, so the function logs it and keeps the newer rules.
// To restore old rules, deploy the old document with a higher version.
type appConfigAgent struct {
	url    string
	client *http.Client
}

// agentMaxIdle is the time after which an idle connection is closed. It is short, because Lambda freezes
// both ends of the connection.
const agentMaxIdle = 5 * time.Second

func newAppConfigAgent(port int, c contract.Configuration) *appConfigAgent {
	return &appConfigAgent{
		url: fmt.Sprintf("http://127.0.0.1:%d%s", port, c.Path()),
		client: &http.Client{
			Transport:     &http.Transport{IdleConnTimeout: agentMaxIdle}, // Proxy is nil, so proxy variables have no effect
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Document implements live.Source.
func (a *appConfigAgent) Document(ctx context.Context) (live.Document, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, http.NoBody)
	if err != nil {
		return live.Document{}, fmt.Errorf("AppConfig agent: %w", err)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return live.Document{}, fmt.Errorf("AppConfig agent: %w; check that the function has its layer", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return live.Document{}, fmt.Errorf("AppConfig agent: status %d for %s; check that the configuration is deployed and that the function may read it", response.StatusCode, a.url)
	}
	// Read one byte more than the largest document, so that the parser rejects a longer document.
	content, err := io.ReadAll(io.LimitReader(response.Body, rules.MaxBytes+1))
	if err != nil {
		return live.Document{}, fmt.Errorf("AppConfig agent: %w", err)
	}
	return live.Document{Content: content}, nil
}

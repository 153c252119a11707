package appconfig

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

// Agent reads one configuration from the AppConfig agent. It is a live.Source. Create it with New. It
// is safe for concurrent use.
type Agent struct {
	url    string
	client *http.Client
}

var _ live.Source = (*Agent)(nil)

// maxIdle is the time after which an idle connection is closed. It is short, because Lambda freezes
// both ends of the connection.
const maxIdle = 5 * time.Second

// New returns an Agent that reads configuration c from the AppConfig agent on a local port.
func New(port int, c contract.Configuration) *Agent {
	return &Agent{
		url: fmt.Sprintf("http://127.0.0.1:%d%s", port, c.Path()),
		client: &http.Client{
			Transport:     &http.Transport{IdleConnTimeout: maxIdle}, // Proxy is nil, so proxy variables have no effect
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Document implements live.Source.
func (a *Agent) Document(ctx context.Context) (live.Document, error) {
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

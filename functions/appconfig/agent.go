package appconfig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
)

// Agent is the AppConfig agent, asked for one configuration. It is a live.Source. Make one with
// New; it is safe for concurrent use.
type Agent struct {
	url    string
	client *http.Client
}

var _ live.Source = (*Agent)(nil)

// Configuration is a configuration at AppConfig, by the ids or the names of its parts.
type Configuration struct{ Application, Environment, Profile string }

var validConfiguration = regexp.MustCompile(`^([A-Za-z0-9_.-]{1,128})/([A-Za-z0-9_.-]{1,128})/([A-Za-z0-9_.-]{1,128})$`)

// ParseConfiguration reads application/environment/profile: ids, or names that have letters,
// digits, _, . and - alone.
func ParseConfiguration(s string) (Configuration, error) {
	parts := validConfiguration.FindStringSubmatch(s)
	for _, part := range parts {
		if part == "." || part == ".." {
			parts = nil
		}
	}
	if parts == nil {
		return Configuration{}, fmt.Errorf("got %.80q, want APPLICATION/ENVIRONMENT/PROFILE, each an id, or a name of letters, digits, _, . and -", s)
	}
	return Configuration{parts[1], parts[2], parts[3]}, nil
}

// Path returns the path by which the agent knows c.
func (c Configuration) Path() string {
	return "/applications/" + c.Application + "/environments/" + c.Environment + "/configurations/" + c.Profile
}

// Actions returns what a policy allows to the agent on the configuration that it reads.
func Actions() []string {
	return []string{"appconfig:GetLatestConfiguration", "appconfig:StartConfigurationSession"}
}

// maxIdle is after how long an idle connection is dropped: Lambda freezes both ends.
const maxIdle = 5 * time.Second

// New returns the agent at a port of this machine.
func New(port int, c Configuration) *Agent {
	return &Agent{
		url: fmt.Sprintf("http://127.0.0.1:%d%s", port, c.Path()),
		client: &http.Client{
			Transport:     &http.Transport{IdleConnTimeout: maxIdle}, // and no proxy
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
		return live.Document{}, fmt.Errorf("AppConfig agent: %w: is its layer in the function?", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return live.Document{}, fmt.Errorf("AppConfig agent: status %d for %s: is the configuration deployed, and may the function read it?", response.StatusCode, a.url)
	}
	// Longer than any document: Parse says so.
	content, err := io.ReadAll(io.LimitReader(response.Body, rules.MaxBytes+1))
	if err != nil {
		return live.Document{}, fmt.Errorf("AppConfig agent: %w", err)
	}
	return live.Document{Content: content}, nil
}

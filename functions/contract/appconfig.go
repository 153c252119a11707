package contract

import (
	"fmt"
	"regexp"
)

// Configuration identifies a configuration at AWS AppConfig. Each part is an id or a name.
type Configuration struct{ Application, Environment, Profile string }

var validConfiguration = regexp.MustCompile(`^([A-Za-z0-9_.-]{1,128})/([A-Za-z0-9_.-]{1,128})/([A-Za-z0-9_.-]{1,128})$`)

// ParseConfiguration parses APPLICATION/ENVIRONMENT/PROFILE. Each part is an id, or a name of
// letters, digits, _, . and - only.
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

// Path returns the path of c at the AppConfig agent.
func (c Configuration) Path() string {
	return "/applications/" + c.Application + "/environments/" + c.Environment + "/configurations/" + c.Profile
}

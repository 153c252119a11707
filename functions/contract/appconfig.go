package contract

import (
	"fmt"
	"strings"
)

// Configuration identifies a configuration at AWS AppConfig. Each part is an id or a name.
type Configuration struct{ Application, Environment, Profile string }

// ParseConfiguration parses APPLICATION/ENVIRONMENT/PROFILE. Each part is an id, or a name of
// letters, digits, _, . and - only.
func ParseConfiguration(s string) (Configuration, error) {
	parts := strings.Split(s, "/")
	isPart := func(s string) bool { return IsName(s, 1, 128) && s != "." && s != ".." }
	if len(parts) != 3 || !isPart(parts[0]) || !isPart(parts[1]) || !isPart(parts[2]) {
		return Configuration{}, fmt.Errorf("got %.80q, want APPLICATION/ENVIRONMENT/PROFILE, each an id, or a name of letters, digits, _, . and -", s)
	}
	return Configuration{parts[0], parts[1], parts[2]}, nil
}

// Path returns the path of c at the AppConfig agent.
func (c Configuration) Path() string {
	return "/applications/" + c.Application + "/environments/" + c.Environment + "/configurations/" + c.Profile
}

// IsName reports whether s has only letters, digits, _, . and -, and a length from the minimum least to the
// maximum most. It replaces a regular expression, which would make the start of a function slower.
func IsName(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return !isNameRune(r) })
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-'
}

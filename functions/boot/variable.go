package boot

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/sethvargo/go-envconfig"
)

// variableError replaces the name of a Config field in an error of envconfig with the name of the
// variable.
func variableError(err error) error {
	variable, problem := "environment", err.Error()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		tag, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		at := strings.Index(problem, f.Name+": ")
		if tag == "" || at < 0 || at > 0 && !strings.HasSuffix(problem[:at], ": ") {
			continue
		}
		variable, problem = tag, problem[at+len(f.Name)+2:]
		break
	}
	if errors.Is(err, envconfig.ErrMissingRequired) {
		problem = "required"
	}
	return fmt.Errorf("%s: %s", variable, problem)
}
